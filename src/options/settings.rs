//! Settings of a session: those that switch special ways of answering queries on and off, and what members of groups may
//! make a session open, limits of requests to object stores, and the cache on disk.
//!
//! Each special way gives the same answer as the general one, faster, for some kind of query. A setting switches it
//! off, to measure its gain or to work around a defect: `SET tiledb.enable_metadata_aggregates = false`. `SHOW ALL`
//! lists the settings, `docs/benchmarks.md` has the results of `benches/special_ways.rs`. For the other setting,
//! `tiledb.external_members`, see [`ExternalMembers`].

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use tiledb_engine::Error;
use tiledb_engine::storage::ExternalMembers;

use crate::options::{ClusterSettings, DiskCacheSettings, SharedLimits, most_similar};

const PREFIX: &str = "tiledb";

/// The setting, and option, of what members of groups and arrays of labels may make us open.
pub(crate) const EXTERNAL_MEMBERS: &str = "external_members";

macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The settings of a session under `tiledb.`; all special ways are on by default.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct TileDbSettings {
            $($(#[doc = $doc])* pub $name: bool,)*
            /// Where members of groups and arrays of labels may lie outside the folder that was attached or opened.
            pub external_members: ExternalMembers,
            /// How long object stores may take.
            #[serde(skip)]
            pub(crate) limits: SharedLimits,
            /// Where bytes of object stores are kept.
            #[serde(skip)]
            pub(crate) cache: DiskCacheSettings,
            /// How large tasks of queries are.
            #[serde(skip)]
            pub(crate) cluster: ClusterSettings,
        }

        impl Default for TileDbSettings {
            fn default() -> Self {
                Self {
                    $($name: true,)*
                    external_members: ExternalMembers::None,
                    limits: SharedLimits::default(),
                    cache: DiskCacheSettings::default(),
                    cluster: ClusterSettings::default(),
                }
            }
        }

        impl TileDbSettings {
            /// The names of the settings that are on or off, without `tiledb.`.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            fn switch(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }

        impl ExtensionOptions for TileDbSettings {
            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }

            fn cloned(&self) -> Box<dyn ExtensionOptions> {
                Box::new(self.clone())
            }

            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                if key == EXTERNAL_MEMBERS {
                    self.external_members = value.parse().map_err(|e: Error| {
                        DataFusionError::Configuration(format!("'{PREFIX}.{key}': {e}"))
                    })?;
                    return Ok(());
                }
                let set = self.limits.set(key, value).or_else(|| self.cache.set(key, value));
                let set = set.or_else(|| self.cluster.set(key, value));
                if let Some(set) = set {
                    return set.map_err(|why| {
                        DataFusionError::Configuration(format!("'{PREFIX}.{key}' {why}"))
                    });
                }
                let Some(switch) = self.switch(key) else {
                    let names = Self::NAMES.iter().copied().chain([EXTERNAL_MEMBERS]);
                    let names = names.chain(SharedLimits::NAMES).chain(DiskCacheSettings::NAMES);
                    let names = names.chain(ClusterSettings::NAMES);
                    let similar = match most_similar(key, names) {
                        Some(similar) => format!("; did you mean '{PREFIX}.{similar}'?"),
                        None => String::new(),
                    };
                    let others = [&SharedLimits::NAMES[..], &DiskCacheSettings::NAMES, &ClusterSettings::NAMES].concat().join(", ");
                    let known = Self::NAMES.join(", ");
                    return Err(DataFusionError::Configuration(format!(
                        "there is no setting '{PREFIX}.{key}' of a session{similar} (there are {known}, {EXTERNAL_MEMBERS}, {others})"
                    )));
                };
                *switch = value.to_ascii_lowercase().parse().map_err(|_| {
                    DataFusionError::Configuration(format!(
                        "'{PREFIX}.{key}' is true or false, found '{value}'"
                    ))
                })?;
                Ok(())
            }

            fn entries(&self) -> Vec<ConfigEntry> {
                let mut entries = vec![$(ConfigEntry {
                    key: format!("{PREFIX}.{}", stringify!($name)),
                    value: Some(self.$name.to_string()),
                    description: concat!($($doc,)*).trim_ascii(),
                },)* ConfigEntry {
                    key: format!("{PREFIX}.{EXTERNAL_MEMBERS}"),
                    value: Some(self.external_members.to_string()),
                    description: "Members of groups and arrays of labels outside the attached folder: none, same_store, or URL prefixes with commas between them.",
                }];
                entries.extend(self.limits.entries(PREFIX));
                entries.extend(self.cache.entries(PREFIX));
                entries.extend(self.cluster.entries(PREFIX));
                entries
            }
        }
    };
}

settings! {
    /// COUNT, SUM, MIN, MAX and AVG of whole tiles come from their statistics.
    enable_metadata_aggregates,
    /// GROUP BY an enumeration groups by its codes.
    enable_enumerated_groups,
    /// ORDER BY dimensions with a LIMIT reads only the cells of a dense array that come first.
    enable_first_cells,
    /// Partitions are ranges of the leading dimension where rows with the same coordinate must be in one partition.
    enable_range_partitions,
    /// ORDER BY the leading dimension reads tiles in its order instead of sorting all rows.
    enable_ordered_scans,
    /// ORDER BY with a LIMIT starts with the tiles that promise the first rows.
    enable_best_tiles_first,
    /// GROUP BY dimensions and enumerations looks up runs of rows once, and small numbers without hashing.
    enable_run_groups,
    /// An element of an attribute with several values per cell is read without copying the list.
    enable_elements_in_place,
    /// Conditions on text are evaluated on the stored bytes of tiles.
    enable_text_search,
    /// Sparse tiles are searched by the order of their cells.
    enable_cell_search,
}

impl ConfigExtension for TileDbSettings {
    const PREFIX: &'static str = PREFIX;
}

impl TileDbSettings {
    /// The settings of a session; the defaults if they have not been registered.
    pub fn of(options: &ConfigOptions) -> Self {
        options.extensions.get().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_on_until_it_is_switched_off() {
        let mut settings = TileDbSettings::default();
        let ways = |settings: &TileDbSettings, value: &str| {
            let entries = settings.entries().into_iter();
            let mut ways = entries.filter(|e| e.key.starts_with("tiledb.enable_"));
            ways.all(|e| e.value.as_deref() == Some(value))
        };
        assert!(ways(&settings, "true"));
        for name in TileDbSettings::NAMES {
            settings.set(name, "FALSE").unwrap();
        }
        assert!(ways(&settings, "false"));
        assert_eq!(settings.external_members.to_string(), "none");
        settings
            .set("external_members", "s3://b/x/, /data")
            .unwrap();
        let entries = settings.entries().into_iter();
        let mut shown = entries.filter(|entry| entry.key == "tiledb.external_members");
        let shown = shown.next().and_then(|entry| entry.value);
        assert_eq!(shown.as_deref(), Some("s3://b/x/,/data"));
        let wrong = settings.set("external_members", "here").unwrap_err();
        assert!(wrong.to_string().contains("same_store"), "{wrong}");
        assert!(
            settings
                .entries()
                .iter()
                .all(|e| e.description.ends_with('.'))
        );
        let unknown = settings
            .set("enable_magic", "true")
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("'tiledb.enable_magic'"), "{unknown}");
        let wrong = settings
            .set("enable_first_cells", "1")
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("true or false, found '1'"), "{wrong}");
    }
}
