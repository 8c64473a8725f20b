//! The arguments of a table function: a location, then options in pairs.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{CatalogProviderList, SchemaProvider, Session, TableProvider};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::logical_expr::Expr;
use tiledb_engine::array::window::OpenWindow;
use tiledb_engine::storage::{ExternalMembers, Storage};
use tiledb_engine::{Error, Result};

use crate::options::encryption::{OTHER_WAYS, shown_name};
use crate::options::settings::TileDbSettings;
use crate::options::{TableOptions, is_creation, is_known, is_of_copy, is_secret, unknown_of};
use crate::stores::location::{self, has_store, with_key};
use crate::stores::runtime::ArrayRuntime;
use crate::table::provider::TileDbTable;
use crate::table::url_table::{ParsedLocation, looks_like_location};

/// What options may begin with.
const PREFIX: &str = "tiledb.";

/// A call as written.
#[derive(Clone)]
pub(crate) struct FunctionCall {
    /// The function.
    pub function: &'static str,
    /// A location, or the name of a table.
    pub target: String,
    /// Options, checked; one of them may be a key.
    pub options: Vec<(String, String)>,
    /// The options that only this function has.
    pub own: Vec<(String, String)>,
}

impl fmt::Debug for FunctionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.function)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl FunctionCall {
    /// Parses the arguments, which must be constants.
    pub(crate) fn parse(function: &'static str, arguments: &[Expr]) -> Result<Self> {
        Self::parse_with(function, &[], arguments)
    }

    /// As [`Self::parse`], for a function with options of its own.
    pub(crate) fn parse_with(
        function: &'static str,
        own_names: &[&str],
        arguments: &[Expr],
    ) -> Result<Self> {
        let texts = arguments
            .iter()
            .enumerate()
            .map(|(i, argument)| text(function, i, argument))
            .collect::<Result<Vec<_>>>()?;
        let Some((target, rest)) = texts.split_first() else {
            return Err(usage(function, "there are no arguments"));
        };
        let (pairs, odd) = rest.as_chunks::<2>();
        // Statements are shown (SHOW CREATE TABLE of a view), planned and logged with the arguments of their functions.
        if rest.iter().any(|text| is_secret(text)) {
            return Err(Error::invalid(format!(
                "{function}: a key isn't an argument of a function, where views, plans and logs show it: {OTHER_WAYS}"
            )));
        }
        if let [key] = odd {
            let key = shown_name(key);
            return Err(usage(function, &format!("the option {key} has no value")));
        }
        let is_own = |key: &str| own_names.contains(&key.strip_prefix(PREFIX).unwrap_or(key));
        let pairs = pairs.iter();
        let (own, options) = pairs
            .map(|[key, value]| (key.clone(), value.clone()))
            .partition(|(key, _)| is_own(key));
        let call = Self {
            function,
            target: target.clone(),
            options,
            own,
        };
        call.check_names(own_names)?;
        call.table_options()?;
        Ok(call)
    }

    /// Fails if an option is neither one of the function nor one of a table.
    fn check_names(&self, own_names: &[&str]) -> Result<()> {
        let is_unknown = |key: &str| !is_known(key) && !is_creation(key) && !is_of_copy(key);
        let unknown = self.options.iter().find(|(key, _)| is_unknown(key));
        let Some((unknown, _)) = unknown.filter(|_| !own_names.is_empty()) else {
            return Ok(());
        };
        let key = unknown.strip_prefix(PREFIX).unwrap_or(unknown);
        let mut names = own_names.to_vec();
        for name in TableOptions::names() {
            names.push(name);
        }
        Err(unknown_of(
            key,
            &format!(" of {}", self.function),
            &names,
            "",
        ))
    }

    /// The options in the call.
    pub(crate) fn table_options(&self) -> Result<TableOptions> {
        TableOptions::from_pairs(self.pairs())
    }

    /// The value of one of the function's own options, if it is given.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        let is_it = |key: &str| key.strip_prefix(PREFIX).unwrap_or(key) == option;
        let found = self.own.iter().rfind(|(key, _)| is_it(key));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether one of the function's own options is switched on; off if it is not given.
    pub(crate) fn is_on(&self, option: &str) -> Result<bool> {
        let (key, Some(value)) = (option, self.value(option)) else {
            return Ok(false);
        };
        match value.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(usage(
                self.function,
                &format!("the option '{key}' is '{value}', expected 'true' or 'false'"),
            )),
        }
    }

    /// The options as written.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

/// An argument as text; it may be a literal number or time.
pub(crate) fn text(function: &'static str, position: usize, argument: &Expr) -> Result<String> {
    let found = match argument {
        Expr::Literal(value, _) if value.is_null() => "NULL".to_owned(),
        Expr::Literal(value, _) if value.data_type().is_binary() => "binary".to_owned(),
        Expr::Literal(value, _) if position == 0 && !value.data_type().is_string() => {
            value.data_type().to_string()
        }
        Expr::Literal(value, _) => match value.cast_to(&DataType::Utf8) {
            Ok(ScalarValue::Utf8(Some(text))) => return Ok(text),
            _ => value.data_type().to_string(),
        },
        _ => "an expression that is not constant".to_owned(),
    };
    let position = position + 1;
    Err(usage(
        function,
        &format!("argument {position} is {found}, expected text"),
    ))
}

fn usage(function: &str, problem: &str) -> Error {
    Error::invalid(format!(
        "{function}: {problem}; call it as {function}('<location or table>') or with options in pairs, \
         as {function}('<location or table>', 'tiledb.timestamp', '2024-05-01')"
    ))
}

/// The parts of a session that resolve names; owned, so that they can be used on another thread.
///
/// The target is the name of a table of the session, or a location, which is resolved as in `CREATE EXTERNAL TABLE`.
/// The subtle thing: some sessions register an object store only when a table at its URL is looked up, so if the store
/// is missing, the URL is looked up.
#[derive(Clone)]
pub(crate) struct NameResolver {
    runtime: ArrayRuntime,
    catalogs: Arc<dyn CatalogProviderList>,
    default_catalog: String,
    default_schema: String,
    external_members: ExternalMembers,
}

impl fmt::Debug for NameResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// An array or group that may or may not exist, and how to read it.
#[derive(Debug, Clone)]
pub(crate) struct FunctionTarget {
    pub storage: Storage,
    pub options: TableOptions,
    /// The table of the session, if the call names one.
    pub table: Option<Arc<dyn TableProvider>>,
    /// The runtime with other object stores, in which members of a group may lie.
    pub runtime: ArrayRuntime,
    /// The members of a group that may be looked up outside it.
    pub external_members: ExternalMembers,
}

impl FunctionTarget {
    /// The window of time of the options, with a fixed end.
    pub(crate) fn window(&self) -> Result<OpenWindow> {
        let window = self.options.window()?;
        OpenWindow::new(window.start, Some(window.end_or_now()))
    }
}

impl NameResolver {
    pub(crate) fn of(session: &dyn Session) -> Self {
        let config = session.config_options();
        let catalog = &config.catalog;
        Self {
            external_members: TileDbSettings::of(config).external_members,
            runtime: ArrayRuntime::of_session(session),
            catalogs: session.catalog_list(),
            default_catalog: catalog.default_catalog.clone(),
            default_schema: catalog.default_schema.clone(),
        }
    }

    /// The target of a call.
    pub(crate) async fn resolve(&self, call: &FunctionCall) -> Result<FunctionTarget> {
        // A name with quotes may contain a path in a group: exp."ms/RNA".var
        if (!looks_like_location(&call.target) || call.target.contains('"'))
            && let Some(table) = self.table(&call.target).await?
        {
            return self.of_table(&call.target, &table, call);
        }
        let named = ParsedLocation::parse(&call.target)?;
        let query = named.pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let options = TableOptions::from_pairs(query.chain(call.pairs()))?;
        if !has_store(&named.path, &self.runtime) {
            // The table is ignored: the lookup may register the store.
            let reference = TableReference::bare(named.path.as_str());
            let asked = self.look_up(reference).await;
            if let Err(e) = asked
                && !has_store(&named.path, &self.runtime)
            {
                return Err(Error::storage("the object store cannot be used").with_source(e));
            }
        }
        let storage = location::storage(&named.path, &options, &self.runtime)?;
        let runtime = self.runtime.clone();
        Ok(FunctionTarget {
            storage,
            external_members: self.external_members(&options),
            options,
            table: None,
            runtime,
        })
    }

    fn external_members(&self, options: &TableOptions) -> ExternalMembers {
        let of_call = options.external_members.as_ref();
        of_call.unwrap_or(&self.external_members).clone()
    }

    /// The table of a name, if a schema has one. A schema may also open folders of files by name, and would list all files
    /// below the folder, so it is never searched for a table that it doesn't have.
    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let (schema, table) = self.schema(TableReference::parse_str(name));
        let schema = schema.filter(|schema| schema.table_exist(&table));
        let found = match schema {
            Some(schema) => schema.table(&table).await,
            None => return Ok(None),
        };
        found.map_err(|e| Error::invalid(format!("the table {name} cannot be used")).with_source(e))
    }

    async fn look_up(
        &self,
        reference: TableReference,
    ) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        match self.schema(reference) {
            (Some(schema), table) => schema.table(&table).await,
            (None, _) => Ok(None),
        }
    }

    /// The schema that would have a table, and the table's name in it.
    fn schema(&self, reference: TableReference) -> (Option<Arc<dyn SchemaProvider>>, Arc<str>) {
        let name = reference.resolve(&self.default_catalog, &self.default_schema);
        let catalog = self.catalogs.catalog(&name.catalog);
        let schema = catalog.and_then(|catalog| catalog.schema(&name.schema));
        (schema, name.table)
    }

    /// The target of a table, with the table's options, which the call may override.
    fn of_table(
        &self,
        name: &str,
        provider: &Arc<dyn TableProvider>,
        call: &FunctionCall,
    ) -> Result<FunctionTarget> {
        let Some(table) = provider.downcast_ref::<TileDbTable>() else {
            return Err(Error::invalid(format!(
                "{}: the table {name} is not a TileDB array",
                call.function
            )));
        };
        let mut options = table.options().clone();
        for (key, value) in call.pairs() {
            options.set(key, value)?;
        }
        Ok(FunctionTarget {
            storage: with_key(table.storage().clone(), &options)?,
            external_members: self.external_members(&options),
            options,
            table: Some(Arc::clone(provider)),
            runtime: self.runtime.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::lit;

    use super::*;

    const KEY: &str = "0123456789abcdeF0123456789abcdeF";

    #[test]
    fn a_location_and_pairs() {
        let call =
            FunctionCall::parse("f", &[lit("a"), lit("tiledb.timestamp"), lit(7_i64)]).unwrap();
        assert_eq!(call.target, "a");
        assert_eq!(call.table_options().unwrap().timestamp_end, Some(7));
        assert!(!format!("{call:?}").contains("timestamp"));
    }

    #[test]
    fn a_function_may_have_options_of_its_own() {
        let arguments = [
            lit("a"),
            lit("tiledb.deep"),
            lit(true),
            lit("timestamp"),
            lit("7"),
        ];
        let call = FunctionCall::parse_with("f", &["deep"], &arguments).unwrap();
        assert!(call.is_on("deep").unwrap() && !call.is_on("wide").unwrap());
        assert_eq!(call.table_options().unwrap().timestamp_end, Some(7));
        assert!(FunctionCall::parse("f", &arguments).is_err());
        let odd = [lit("a"), lit("deep"), lit("yes")];
        let call = FunctionCall::parse_with("f", &["deep"], &odd).unwrap();
        let error = call.is_on("deep").unwrap_err();
        assert!(
            error.message().contains("expected 'true' or 'false'"),
            "{error}"
        );
    }

    #[test]
    fn other_arguments_show_the_signature() {
        let binary = Expr::Literal(ScalarValue::Binary(Some(vec![1])), None);
        let null = Expr::Literal(ScalarValue::Utf8(None), None);
        let cases: [(&[Expr], &str); 9] = [
            (&[], "no arguments"),
            (&[lit(1_i64)], "argument 1 is Int64, expected text"),
            (&[lit("a"), lit("timestamp")], "'timestamp' has no value"),
            (
                &[lit("a"), lit("tiledb.encryption_key"), lit("hunter2")],
                "a key isn't an argument of a function",
            ),
            (&[lit("a"), lit(KEY)], "the option (not shown"),
            (&[binary], "argument 1 is binary"),
            (&[null], "argument 1 is NULL"),
            (&[datafusion::prelude::col("c")], "not constant"),
            (
                &[lit("a"), lit("timestmp"), lit("1")],
                "unknown option \"timestmp\"",
            ),
        ];
        for (arguments, expected) in cases {
            let error = FunctionCall::parse("f", arguments).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
            assert!(!error.message().contains(KEY) && !error.message().contains("hunter2"));
            let tells_usage = !expected.starts_with("unknown") && !expected.starts_with("a key");
            assert!(!tells_usage || error.message().contains("f('<location"));
        }
    }
}
