//! The rows of tables as Parquet files: what plain DataFusion prunes, filters while it reads and splits among partitions.

use std::fs::File;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use super::arrays::Loaded;

const ROW_GROUP: usize = 64;

/// A folder with a file for each table, for as long as it lives.
#[derive(Debug)]
pub struct Files {
    folder: TempDir,
    tables: Vec<Arc<Loaded>>,
}

impl Files {
    /// Writes tables; `None` if Parquet cannot hold a type of theirs.
    pub fn of(tables: &[Arc<Loaded>]) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        for (number, table) in tables.iter().enumerate() {
            let file = File::create(folder.path().join(format!("{number}.parquet"))).ok()?;
            let groups = ROW_GROUP.max(table.rows.num_rows() / 20);
            let properties = WriterProperties::builder()
                .set_max_row_group_row_count(Some(groups))
                .build();
            let mut writer =
                ArrowWriter::try_new(file, table.rows.schema(), Some(properties)).ok()?;
            writer.write(&table.rows).ok()?;
            writer.close().ok()?;
        }
        let tables = tables.to_vec();
        Some(Self { folder, tables })
    }

    /// A table of each file.
    pub fn tables(&self) -> Option<Vec<Arc<dyn TableProvider>>> {
        let tables = self.tables.iter().enumerate().map(|(number, table)| {
            let path = self.folder.path().join(format!("{number}.parquet"));
            let url = ListingTableUrl::parse(path.to_str()?).ok()?;
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
            let config = ListingTableConfig::new(url)
                .with_listing_options(options)
                .with_schema(table.rows.schema());
            Some(Arc::new(ListingTable::try_new(config).ok()?) as Arc<dyn TableProvider>)
        });
        tables.collect()
    }
}
