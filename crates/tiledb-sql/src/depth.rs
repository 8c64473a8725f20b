//! Refuses statements that are deeper than the stack of the shell's threads.
//!
//! The parser bounds how deep parentheses nest, but not how long a chain of operators is, as in `1 + 1 + 1 …`. It makes a tree as
//! deep as the chain is long, and trees are walked and freed recursively. Lists, as of `VALUES` and `IN`, are not deep.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The stack of each thread. Of its address space, only what is used takes memory.
pub const STACK_BYTES: usize = 256 << 20;

/// The most operators in one chain.
const MOST_OPERATORS: usize = 20_000;

/// Fails if a chain of operators is too long.
pub fn check(sql: &str) -> Result<()> {
    if sql.len() <= MOST_OPERATORS {
        return Ok(());
    }
    // The parser reports text that can't be cut into words.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else {
        return Ok(());
    };
    let longest = longest_chain(&tokens);
    if longest <= MOST_OPERATORS {
        return Ok(());
    }
    Err(DataFusionError::Plan(format!(
        "an expression has {longest} operators in one chain, and the most are {MOST_OPERATORS}; \
         compare with a list (x IN (…)) or join a table of the values instead"
    )))
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
        assert!(check(&chain(MOST_OPERATORS)).is_ok());
        let refused = check(&chain(MOST_OPERATORS + 1)).unwrap_err();
        assert!(refused.to_string().contains("20001 operators"), "{refused}");
    }
}
