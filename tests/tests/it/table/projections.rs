//! docs/operations.md names the schemas of Postgres and the indexes in their present versions.

use view::projection::PROJECTIONS;

#[test]
fn every_projection_is_named_in_its_version() {
    let document = include_str!("../../../../docs/operations.md");
    let drop = document.lines().find(|line| line.contains("`drop schema platform, ")).expect("it says what to drop");
    let dropped: Vec<&str> = drop.split(['`', ' ', ',']).collect();
    for projection in PROJECTIONS.iter() {
        let (name, schema) = (projection.name, projection.schema_name());
        assert!(document.contains(&format!("`{name}`")), "{name}");
        if projection.schema().is_some() {
            assert!(document.contains(&format!("schema `{schema}`")), "{name} is in {schema}");
            assert!(dropped.contains(&schema.as_str()), "{schema} is to be dropped");
        }
    }
}
