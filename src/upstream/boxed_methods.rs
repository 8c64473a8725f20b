//! Async methods of DataFusion's traits that forward to boxed futures, so that the crate compiles in a fraction of the time.
//!
//! `async_trait` makes a generic method with bounds on its lifetimes of each async method. Under such bounds, the compiler proves
//! anew for every method that what its future holds is `Send`, and doesn't remember the proofs. An expression or a session holds
//! the whole syntax tree of SQL, so each proof takes seconds, and is made twice. A method that isn't generic has no such bounds,
//! and its proofs are shared by the whole crate. So these macros declare the method as `async_trait` would, and call a method
//! of the type's own, whose name ends in `_boxed`. With them, the crate compiles in a third of the time.

/// Declares async methods of a trait that forward to `<name>_boxed`.
macro_rules! forward_to_boxed {
    (TableProvider: $($method:ident),+) => { $($crate::upstream::boxed_methods::forward_to_boxed!(@$method);)+ };
    (@scan) => {
        fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn datafusion::catalog::Session,
            projection: Option<&'life2 Vec<usize>>,
            filters: &'life3 [datafusion::logical_expr::Expr],
            limit: Option<usize>,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            'life2: 'async_trait,
            'life3: 'async_trait,
            Self: 'async_trait,
        {
            self.scan_boxed(state, projection, filters, limit)
        }
    };
    (@scan_with_args) => {
        fn scan_with_args<'a, 'life0, 'life1, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn datafusion::catalog::Session,
            args: datafusion::catalog::ScanArgs<'a>,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<datafusion::catalog::ScanResult>,
        >
        where
            'a: 'async_trait,
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            self.scan_with_args_boxed(state, args)
        }
    };
    (@insert_into) => {
        fn insert_into<'life0, 'life1, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn datafusion::catalog::Session,
            input: std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>,
            insert_op: datafusion::logical_expr::dml::InsertOp,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            self.insert_into_boxed(state, input, insert_op)
        }
    };
    (@delete_from) => {
        fn delete_from<'life0, 'life1, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn datafusion::catalog::Session,
            filters: Vec<datafusion::logical_expr::Expr>,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            self.delete_from_boxed(state, filters)
        }
    };
    (@update) => {
        fn update<'life0, 'life1, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn datafusion::catalog::Session,
            assignments: Vec<(String, datafusion::logical_expr::Expr)>,
            filters: Vec<datafusion::logical_expr::Expr>,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            self.update_boxed(state, assignments, filters)
        }
    };
    (@truncate) => {
        fn truncate<'life0, 'life1, 'async_trait>(
            &'life0 self,
            state: &'life1 dyn datafusion::catalog::Session,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            self.truncate_boxed(state)
        }
    };
    (SchemaProvider: table) => {
        fn table<'life0, 'life1, 'async_trait>(
            &'life0 self,
            name: &'life1 str,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<Option<std::sync::Arc<dyn datafusion::catalog::TableProvider>>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            Self: 'async_trait,
        {
            self.table_boxed(name)
        }
    };
    (TableProviderFactory: create) => {
        fn create<'life0, 'life1, 'life2, 'async_trait>(
            &'life0 self,
            session: &'life1 dyn datafusion::catalog::Session,
            statement: &'life2 datafusion::logical_expr::CreateExternalTable,
        ) -> futures::future::BoxFuture<
            'async_trait,
            datafusion::common::Result<std::sync::Arc<dyn datafusion::catalog::TableProvider>>,
        >
        where
            'life0: 'async_trait,
            'life1: 'async_trait,
            'life2: 'async_trait,
            Self: 'async_trait,
        {
            self.create_boxed(session, statement)
        }
    };
}

pub(crate) use forward_to_boxed;
