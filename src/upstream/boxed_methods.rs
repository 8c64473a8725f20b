//! Async methods of DataFusion's traits that forward to boxed futures, so that the crate compiles in a fraction of the time.
//!
//! `async_trait` makes a generic method with bounds on its lifetimes of each async method. Under such bounds, the compiler proves
//! anew for every method that what its future holds is `Send`, and doesn't remember the proofs. An expression or a session holds
//! the whole syntax tree of SQL, so each proof takes seconds, and is made twice. A method that isn't generic has no such bounds,
//! and its proofs are shared by the whole crate. So these macros declare the method as `async_trait` would, and call a method
//! of the type's own, whose name ends in `_boxed`. With them, the crate compiles in a third of the time.

/// Declares async methods of a trait that forward to `<name>_boxed`.
macro_rules! forward_to_boxed {
    (TableProvider: $($method:ident),+) => {
        $($crate::upstream::boxed_methods::forward_to_boxed!(@$method);)+
    };
    (SchemaProvider: table) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            table, table_boxed, ['life0, 'life1], (name: &'life1 str),
            Option<std::sync::Arc<dyn datafusion::catalog::TableProvider>>
        );
    };
    (TableProviderFactory: create) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            create, create_boxed, ['life0, 'life1, 'life2],
            (
                session: &'life1 dyn datafusion::catalog::Session,
                statement: &'life2 datafusion::logical_expr::CreateExternalTable
            ),
            std::sync::Arc<dyn datafusion::catalog::TableProvider>
        );
    };
    (@scan) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            scan, scan_boxed, ['life0, 'life1, 'life2, 'life3],
            (
                state: &'life1 dyn datafusion::catalog::Session,
                projection: Option<&'life2 Vec<usize>>,
                filters: &'life3 [datafusion::logical_expr::Expr],
                limit: Option<usize>
            ),
            std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>
        );
    };
    (@scan_with_args) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            scan_with_args, scan_with_args_boxed, ['a, 'life0, 'life1],
            (
                state: &'life1 dyn datafusion::catalog::Session,
                args: datafusion::catalog::ScanArgs<'a>
            ),
            datafusion::catalog::ScanResult
        );
    };
    (@insert_into) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            insert_into, insert_into_boxed, ['life0, 'life1],
            (
                state: &'life1 dyn datafusion::catalog::Session,
                input: std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>,
                insert_op: datafusion::logical_expr::dml::InsertOp
            ),
            std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>
        );
    };
    (@delete_from) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            delete_from, delete_from_boxed, ['life0, 'life1],
            (
                state: &'life1 dyn datafusion::catalog::Session,
                filters: Vec<datafusion::logical_expr::Expr>
            ),
            std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>
        );
    };
    (@update) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            update, update_boxed, ['life0, 'life1],
            (
                state: &'life1 dyn datafusion::catalog::Session,
                assignments: Vec<(String, datafusion::logical_expr::Expr)>,
                filters: Vec<datafusion::logical_expr::Expr>
            ),
            std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>
        );
    };
    (@truncate) => {
        $crate::upstream::boxed_methods::forward_to_boxed!(
            truncate, truncate_boxed, ['life0, 'life1],
            (state: &'life1 dyn datafusion::catalog::Session),
            std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>
        );
    };
    // The method as `async_trait` declares it.
    (
        $method:ident, $boxed:ident, [$($life:lifetime),+],
        ($($argument:ident: $type:ty),+), $result:ty
    ) => {
        fn $method<$($life,)+ 'async_trait>(
            &'life0 self,
            $($argument: $type),+
        ) -> futures::future::BoxFuture<'async_trait, datafusion::common::Result<$result>>
        where
            $($life: 'async_trait,)+
            Self: 'async_trait,
        {
            self.$boxed($($argument),+)
        }
    };
}

pub(crate) use forward_to_boxed;
