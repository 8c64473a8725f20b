//! Guards against rules of DataFusion that give wrong answers over arrays.
//!
//! Each guard stands against one defect, which `docs/upstream/` reports with the smallest example that needs no array.
//! A guard changes nothing in a plan without an array, and each has a test that fails as soon as DataFusion is mended, so
//! that the guard can go:
//!
//! - [`run_time_filters`]: filters that arrive while a query runs, from where they may not.
//! - [`names`]: filters that go by the names of columns, where two have one.
//! - [`limited_distinct`]: a DISTINCT with a limit, which fails once its rows come in an order.
//! - [`partition_limits`]: a limit over all partitions where each should have one.
//! - [`lost_orders`]: a sort that moves to where it seems needless, and is missed above.
//! - [`uniqueness`]: a key that moves to another column, and a sort that is dropped for it.
//! - [`nullable_in`]: `IN (SELECT …)` inside a larger condition, which forgets about NULL.
//! - [`table_factors`]: `FROM t FOR SYSTEM_TIME AS OF …` and the like, which are dropped without a word.

pub(super) mod limited_distinct;
pub(super) mod lost_orders;
pub(super) mod names;
pub(super) mod nullable_in;
pub(super) mod partition_limits;
pub(super) mod run_time_filters;
pub(super) mod table_factors;
pub(super) mod uniqueness;
