//! The words that create an array like one that exists: they begin with every choice, and then drop each choice that the
//! defaults would make anyway.
//!
//! The subtle thing: the words are tried, and whatever they don't bring back is reported instead of being silently lost.

use arrow::datatypes::DataType;

use super::resolve::{resolve_attribute, resolve_fill};
use super::settings::{AttributeSettings, DimensionSettings};
use super::{ArrayBuilder, BuilderColumn};
use crate::error::Result;
use crate::format::schema::{ArraySchema, Attribute};
use crate::write::create::definition::ArrayDefinition;

/// The columns and options that create an array.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateWording {
    /// The columns, dimensions first: name, type, whether it may be NULL.
    pub columns: Vec<(String, DataType, bool)>,
    /// How many of the columns are dimensions.
    pub dimensions: usize,
    /// The options without the prefix `tiledb.`, in a fixed order: those whose value is not the default.
    pub options: Vec<(String, String)>,
    /// The properties of the array that these words don't bring back.
    pub missing: Vec<String>,
    /// The reason why these words create no array, if they don't.
    pub refused: Option<String>,
}

impl CreateWording {
    /// The columns and options of an array; `missing` lists the losses that are known already.
    ///
    /// # Errors
    /// A part of the array cannot be read.
    pub fn of(definition: &ArrayDefinition, missing: Vec<String>) -> Result<Self> {
        // The name that 1.x stored for an unnamed attribute can't be used again.
        let mut definition = definition.clone();
        let attributes = definition.schema.attributes.iter_mut();
        let unnamed = attributes.filter(|attribute| attribute.is_unnamed());
        unnamed.for_each(|attribute| attribute.name.clear());
        let definition = &definition;
        let mut builder = ArrayBuilder::of(definition)?;
        builder.drop_defaults(definition);
        let dimensions = builder
            .dimensions
            .iter()
            .map(|c| (c.name.clone(), c.declared.clone(), false));
        let attributes = builder
            .attributes
            .iter()
            .map(|c| (c.name.clone(), c.declared.clone(), c.nullable));
        let mut wording = Self {
            columns: dimensions.chain(attributes).collect(),
            dimensions: builder.dimensions.len(),
            options: builder.options(definition),
            missing,
            refused: None,
        };
        match wording.builder().and_then(|builder| builder.definition()) {
            Ok(again) => wording.missing.extend(lost(definition, &again)),
            Err(why) => wording.refused = Some(why.to_string()),
        }
        Ok(wording)
    }

    /// The builder with these words.
    ///
    /// # Errors
    /// An option is not valid, for example because this release cannot create such an array.
    pub fn builder(&self) -> Result<ArrayBuilder> {
        let fields = self.columns.iter().map(|(name, data_type, nullable)| {
            arrow::datatypes::Field::new(name, data_type.clone(), *nullable)
        });
        let schema = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
        let names = self
            .columns
            .iter()
            .take(self.dimensions)
            .map(|(name, ..)| name);
        let mut builder = ArrayBuilder::new(&schema, names)?;
        for (key, value) in &self.options {
            builder = builder.option(key, value)?;
        }
        Ok(builder)
    }
}

impl ArrayBuilder {
    /// Drops every choice that the defaults would make.
    fn drop_defaults(&mut self, definition: &ArrayDefinition) {
        let mut schema = definition.schema.clone();
        schema.attributes.clear();
        schema.enumerations.clear();
        macro_rules! drop {
            ($($chosen:ident)*) => {$(
                let kept = self.array.$chosen.take();
                if kept.is_some() && !self.gives(&schema) {
                    self.array.$chosen = kept;
                }
            )*};
        }
        drop!(array_type cell_order tile_order capacity allows_duplicates);
        drop!(coords_filters offsets_filters validity_filters current_domain);
        for index in 0..self.dimensions.len() {
            macro_rules! drop {
                ($($chosen:ident)*) => {$(
                    let kept = self.dimension(index).and_then(|d| d.$chosen.take());
                    if kept.is_some() && !self.gives(&schema) {
                        if let Some(dimension) = self.dimension(index) {
                            dimension.$chosen = kept;
                        }
                    }
                )*};
            }
            drop!(stored filters tile domain);
        }
        for (column, attribute) in self
            .attributes
            .iter_mut()
            .zip(&definition.schema.attributes)
        {
            drop_attribute_defaults(column, attribute, definition);
        }
    }

    fn dimension(&mut self, index: usize) -> Option<&mut DimensionSettings> {
        self.dimensions
            .get_mut(index)
            .map(|column| &mut column.chosen)
    }

    /// Whether the choices give this schema, without its attributes.
    fn gives(&self, schema: &ArraySchema) -> bool {
        self.resolve_array(Vec::new())
            .is_ok_and(|given| given == *schema)
    }
}

/// The parts of the wanted array that the given one doesn't equal.
fn lost(wanted: &ArrayDefinition, given: &ArrayDefinition) -> Vec<String> {
    let mut lost = Vec::new();
    let fields = wanted
        .schema
        .dimensions
        .iter()
        .zip(&given.schema.dimensions);
    for (wanted, given) in fields.filter(|(wanted, given)| wanted != given) {
        lost.push(match (&wanted.extent, wanted.name == given.name) {
            (_, false) => "a dimension without a name".to_owned(),
            (None, _) if given.extent.is_some() => {
                format!("dimension \"{}\" without a tile extent", wanted.name)
            }
            _ => format!("dimension \"{}\" as it is stored", wanted.name),
        });
    }
    let fields = wanted
        .schema
        .attributes
        .iter()
        .zip(&given.schema.attributes);
    for (wanted, _) in fields.filter(|(wanted, given)| wanted != given) {
        lost.push(format!("attribute \"{}\" as it is stored", wanted.name));
    }
    let rest = |definition: &ArrayDefinition| {
        let mut definition = definition.clone();
        definition.schema.dimensions.clear();
        definition.schema.attributes.clear();
        definition
    };
    if rest(wanted) != rest(given) {
        lost.push(
            "filters of coordinates, offsets or validity, or an enumeration, as they are stored"
                .to_owned(),
        );
    }
    lost
}

fn drop_attribute_defaults(
    column: &mut BuilderColumn<AttributeSettings>,
    attribute: &Attribute,
    definition: &ArrayDefinition,
) {
    let told = column.chosen.enumeration.is_some();
    let wanted = definition
        .enumerations
        .iter()
        .clone()
        .find(|e| told && Some(&e.name) == attribute.enumeration.as_ref());
    let gives = |column: &BuilderColumn<AttributeSettings>| {
        let Ok((mut given, enumeration)) = resolve_attribute(column) else {
            return false;
        };
        let filled = resolve_fill(column, &mut given, &definition.enumerations);
        filled.is_ok() && given == *attribute && enumeration.as_ref() == wanted
    };
    macro_rules! drop {
        ($($chosen:ident)*) => {$(
            let kept = column.chosen.$chosen.take();
            if kept.is_some() && !gives(column) {
                column.chosen.$chosen = kept;
            }
        )*};
    }
    drop!(enumeration_name enumeration_type stored filters fill_valid fill);
    // Once `fill` is dropped, `fill_valid` has another default, so it may be droppable now.
    drop!(fill_valid);
}
