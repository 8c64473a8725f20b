//! The default dialect with times in FROM: `FROM t FOR SYSTEM_TIME AS OF '2024-05-01'`.
//!
//! sqlparser parses the clause in the dialects of some other systems only. There, `AT`, `BEFORE` and `CHANGES` begin such clauses,
//! too, and can't be aliases. So a statement is parsed in this dialect only if it has the words AS OF, and if the plain dialect
//! doesn't parse it.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};

/// [`GenericDialect`] with times in FROM.
#[derive(Debug)]
pub(crate) struct GenericWithTimes;

impl GenericWithTimes {
    /// Whether a statement may have times in FROM.
    pub(crate) fn is_needed(sql: &str) -> bool {
        let words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let words = words.filter(|word| !word.is_empty());
        let next = words.clone().skip(1);
        words
            .zip(next)
            .any(|(word, next)| word.eq_ignore_ascii_case("as") && next.eq_ignore_ascii_case("of"))
    }
}

/// Implements methods by calling those of [`GenericDialect`].
macro_rules! forward_to_generic {
    ($($method:ident),* $(,)?) => {
        $(fn $method(&self) -> bool {
            GenericDialect.$method()
        })*
    };
}

impl Dialect for GenericWithTimes {
    /// The parser asks for the type of the dialect in some places.
    fn dialect(&self) -> TypeId {
        GenericDialect.dialect()
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        GenericDialect.is_delimited_identifier_start(c)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        GenericDialect.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        GenericDialect.is_identifier_part(c)
    }

    // All methods that GenericDialect implements.
    forward_to_generic!(
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    );
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn statements_have_one_meaning_in_both_dialects() {
        for sql in [
            "SELECT * EXCLUDE (a), * REPLACE (1 AS b), {'a': 1}, MAP {'x': 1}, [1, 2][1], a # b FROM t",
            "FROM t SELECT a WHERE b << 2 > 1",
            "SELECT a, FROM t LIMIT 1, 2",
            "SELECT count(*) FILTER (WHERE a > 1), first_value(a) IGNORE NULLS OVER w FROM t WINDOW w AS (ORDER BY a)",
            "SELECT `a`, \"b\", @c, d$e FROM `t` AS \"u\" GROUP BY ALL ORDER BY all",
            "SELECT /* a /* nested */ comment */ 1",
            "SELECT extract('year' FROM a), extract(year, b), trim(a, b), E'x\\n', U&'\\0041' FROM t",
            "SELECT * FROM (VALUES (1), (2)) AS t(x), (u), f(a => 1, b := 2)",
            "SELECT a::INT[3], CAST(b AS STRUCT<x INT>) FROM t",
            "CREATE TABLE t (a INT, b TEXT DEFAULT 'x')",
            "SELECT 1 |> WHERE true",
        ] {
            let plain = Parser::parse_sql(&GenericDialect, sql);
            let with_times = Parser::parse_sql(&GenericWithTimes, sql);
            assert_eq!(plain, with_times, "{sql}");
        }
    }

    #[test]
    fn tables_have_times() {
        let sql = "SELECT * FROM './a' FOR SYSTEM_TIME AS OF '2024-05-01' AS t JOIN u TIMESTAMP AS OF 5 USING (x)";
        assert!(GenericWithTimes::is_needed(sql));
        assert!(Parser::parse_sql(&GenericDialect, sql).is_err());
        let parsed = Parser::parse_sql(&GenericWithTimes, sql).unwrap();
        let shown = "SELECT * FROM './a' AS t FOR SYSTEM_TIME AS OF '2024-05-01' JOIN u TIMESTAMP AS OF 5 USING(x)";
        assert_eq!(parsed[0].to_string(), shown);
        assert!(!GenericWithTimes::is_needed("SELECT a AS b, of FROM at"));
        assert!(GenericWithTimes::is_needed("FROM t TIMESTAMP as\n of 5"));
    }
}
