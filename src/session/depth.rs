//! Refuses statements that are too deep for the stack of the threads that run them.
//!
//! The parser bounds how deep parentheses nest, but not how long a chain of operators is, as in `1 + 1 + 1 …`. It makes a tree as
//! deep as the chain is long, and trees are walked and freed recursively. Lists, as of `VALUES` and `IN`, are not deep.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The most operators in one chain that an optimized build can run on a stack of 2 MiB.
const DEFAULT_OPERATORS: usize = 1000;

/// The maximum depth of a session's statements, for
/// [`SessionConfig::with_extension`](datafusion::prelude::SessionConfig::with_extension).
///
/// ```
/// use std::sync::Arc;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use datafusion_tiledb::session::StatementDepth;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let depth = StatementDepth { most_operators: 100 };
/// let ctx = SessionContext::new_with_config(SessionConfig::new().with_extension(Arc::new(depth)));
/// datafusion_tiledb::register(&ctx)?;
/// let sum = format!("SELECT 1{}", " + 1".repeat(101));
/// assert!(datafusion_tiledb::execute(&ctx, &sum).await.is_err());
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementDepth {
    /// The most operators in one chain, as in `1 + 1 + 1 …`. A statement with a longer chain is an error.
    pub most_operators: usize,
}

impl Default for StatementDepth {
    /// The depth for threads with a stack of 2 MiB, which is what Rust and Tokio give threads. Programs whose threads have larger
    /// stacks can allow more: the shell allows 20,000 operators with 256 MiB.
    fn default() -> Self {
        Self {
            most_operators: DEFAULT_OPERATORS,
        }
    }
}

impl StatementDepth {
    /// Fails if a chain of operators is too long.
    pub(super) fn check(self, sql: &str) -> Result<()> {
        let most = self.most_operators;
        if sql.len() <= most {
            return Ok(());
        }
        // The parser reports text that can't be cut into words.
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else {
            return Ok(());
        };
        let longest = longest_chain(&tokens);
        if longest <= most {
            return Ok(());
        }
        Err(DataFusionError::Plan(format!(
            "an expression has {longest} operators in one chain, and the most are {most}; \
             compare with a list (x IN (…)) or join a table of the values instead"
        )))
    }
}

fn longest_chain(tokens: &[Token]) -> usize {
    let (mut longest, mut chain, mut around) = (0, 0_usize, Vec::new());
    for token in tokens {
        match token {
            Token::LParen | Token::LBracket => around.push(std::mem::take(&mut chain)),
            Token::RParen | Token::RBracket => chain = around.pop().unwrap_or(0),
            Token::Comma | Token::SemiColon => chain = 0,
            token if is_operator(token) => {
                chain += 1;
                longest = longest.max(chain);
            }
            _ => {}
        }
    }
    longest
}

/// Whether a token may make the tree deeper.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
        ),
        Token::Number(..) | Token::Whitespace(_) | Token::Period | Token::Colon | Token::EOF => {
            false
        }
        other => {
            let text = other.to_string();
            text.chars().all(|c| c.is_ascii_punctuation())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(sql: &str) -> usize {
        longest_chain(&Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap())
    }

    #[test]
    fn operators_of_a_chain_are_counted_and_lists_are_not() {
        assert_eq!(longest("SELECT 1 + 1 - a::INT || '+ + +' -- + + +"), 4);
        assert_eq!(longest("SELECT a = 1 OR a = 2 OR a IS NULL"), 5);
        assert_eq!(longest("VALUES (-1, 1), (-1, 2), (-1 + 2, 3)"), 2);
        assert_eq!(
            longest("SELECT a FROM t WHERE a IN (-1, -2, -3) AND b < 1"),
            3
        );
        assert_eq!(longest("SELECT (1 + 1) + (1 + 1) + f(1, 2 * 3)"), 2);
        assert_eq!(longest("SELECT 1 UNION SELECT 2 UNION ALL SELECT 3"), 2);
    }

    #[test]
    fn long_chains_are_refused() {
        let chain = |operators| format!("SELECT 1{}", " + 1".repeat(operators));
        let depth = StatementDepth {
            most_operators: 300,
        };
        assert!(depth.check(&chain(300)).is_ok());
        let refused = depth.check(&chain(301)).unwrap_err().to_string();
        assert!(refused.contains("301 operators"), "{refused}");
    }
}
