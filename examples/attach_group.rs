//! A group of arrays, here a small SOMA experiment, as a catalog. `cargo run --example attach_group`

use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ctx = SessionContext::new();
    let group = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/experiment");
    datafusion_tiledb::register_group(&ctx, "exp", group).await?;

    ctx.sql(
        "SELECT cell_type, gene, sum(soma_data) AS counts
         FROM exp.\"ms/RNA/X\".data x
         JOIN exp.obs o ON o.soma_joinid = x.soma_dim_0
         JOIN exp.ms.\"RNA/var\" v ON v.soma_joinid = x.soma_dim_1
         GROUP BY cell_type, gene ORDER BY cell_type, gene",
    )
    .await?
    .show()
    .await?;
    Ok(())
}
