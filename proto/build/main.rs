//! Generates Rust from the proto files: messages (prost), their JSON form (pbjson), their validation, their shapes and
//! the operations.

mod operation;
#[path = "../src/option.rs"]
pub mod option;
mod shape;
mod validation;

use std::{collections::BTreeMap, env, error::Error, fmt::Write, fs, io, path::PathBuf};

use prost_reflect::{DescriptorPool, prost_types::FileDescriptorProto};

/// The folder of the proto files.
const FOLDER: &str = "platform";

/// The well-known types, handwritten because their JSON form is not that of a message.
const WELL_KNOWN: [(&str, &str); 3] = [
    (".google.protobuf.Duration", "crate::wellknown::Duration"),
    (".google.protobuf.Struct", "crate::wellknown::Struct"),
    (".google.protobuf.Timestamp", "crate::wellknown::Timestamp"),
];

fn main() -> Result<(), Box<dyn Error>> {
    for source in ["build", "google", "platform", "src/option.rs"] {
        println!("cargo:rerun-if-changed={source}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true).include_source_info(true).open_files(files()?)?;
    // Only the encoded form has the options.
    let descriptors = compiler.encode_file_descriptor_set();
    let pool = DescriptorPool::decode(descriptors.as_slice())?;

    let mut packages = messages(compiler.file_descriptor_set().file)?;
    let printed = json(&descriptors)?.into_iter().chain(validation::generate(&pool)).chain(shape::generate(&pool));
    for (package, code) in printed {
        packages.entry(package).or_default().push_str(&code);
    }

    fs::write(out.join("descriptors.bin"), &descriptors)?;
    fs::write(out.join("sources.rs"), sources()?)?;
    fs::write(out.join("operations.rs"), spelled(&operation::generate(&pool)?))?;
    fs::write(out.join("requests.rs"), spelled(&shape::visits(&pool)))?;
    fs::write(out.join("packages.rs"), spelled(&tree(&packages)))?;
    fs::write(out.join("names.rs"), names(packages.keys())?)?;
    Ok(())
}

/// Returns the code of a table with the text of every file that clients need, by its path: without the internal ones of
/// nodes.
fn sources() -> Result<String, io::Error> {
    let internal = ["platform/bus.proto", "platform/log.proto"];
    let imported = ["google/api/annotations.proto", "google/api/http.proto"].map(PathBuf::from);
    let mut code = String::from("pub(super) static SOURCES: &[(&str, &str)] = &[\n");
    for path in files()?.iter().chain(&imported).map(|path| path.display().to_string()) {
        if !internal.contains(&path.as_str()) {
            let _ = writeln!(code, "({path:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{path}\"))),");
        }
    }
    Ok(code + "];\n")
}

/// Returns every proto file, in a fixed order.
fn files() -> Result<Vec<PathBuf>, io::Error> {
    let found = fs::read_dir(FOLDER)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = found.collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    Ok(files)
}

/// Returns a short alias for each package: the name of the resource, with a suffix for settings.
fn names<'a>(packages: impl Iterator<Item = &'a String>) -> Result<String, String> {
    let mut code = String::new();
    for package in packages {
        let name = match package.split('.').collect::<Vec<_>>()[..] {
            ["platform", "settings", noun, _] => format!("{noun}_settings"),
            ["platform", "resources", noun, _] | ["platform", noun, _] => noun.to_owned(),
            _ => return Err(format!("the package {package} is named as no package of the platform is")),
        };
        let path = package.replace('.', "::");
        let _ = writeln!(code, "pub use generated::{path} as {name};");
    }
    Ok(code)
}

/// Returns the code of the message types, by package.
fn messages(files: Vec<FileDescriptorProto>) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let requests =
        files.into_iter().map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file)).collect();
    let mut config = prost_build::Config::new();
    config.compile_well_known_types();
    // Ordered, so that the same message always has the same encoding.
    config.btree_map(["."]);
    // The log is read by many readers, who share the payloads instead of copying them.
    config.bytes([".platform.bus.v1", ".platform.log.v1"]);
    for (proto, rust) in WELL_KNOWN {
        config.extern_path(proto, rust);
    }
    let modules = config.generate(requests)?;
    let packages = modules.into_iter().map(|(module, code)| (module.parts().collect::<Vec<_>>().join("."), code));
    // The other packages are needed by the build only.
    Ok(packages.filter(|(package, _)| package.starts_with("platform.") && package != "platform.option").collect())
}

/// Returns the code of the messages' JSON form, by package.
fn json(descriptors: &[u8]) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut builder = pbjson_build::Builder::new();
    builder.register_descriptors(descriptors)?.exclude([".platform.bus", ".platform.log", ".platform.option"]);
    builder.btree_map(["."]);
    for (proto, rust) in WELL_KNOWN {
        builder.extern_path(proto, rust);
    }
    let mut packages = BTreeMap::new();
    for (package, code) in builder.generate(&[".platform"], |_| Ok(Vec::new()))? {
        packages.insert(package.to_string(), String::from_utf8(code)?);
    }
    for field in option::ALWAYS_PRINTED {
        print_always(field, &mut packages)?;
    }
    Ok(packages)
}

/// Changes the generated code so that a field is printed at its default, too, whatever its type.
fn print_always(field: &str, packages: &mut BTreeMap<String, String>) -> Result<(), String> {
    // The tests that pbjson makes before it prints a field.
    let tests = [format!("!self.{field}.is_empty()"), format!("self.{field} != 0"), format!("self.{field}")];
    let tests = tests.map(|test| format!("if {test} {{"));
    let mut found = false;
    for code in packages.values_mut() {
        for test in &tests {
            found |= code.contains(test);
            *code = code.replace(test, "if true {");
        }
    }
    if found { Ok(()) } else { Err(format!("pbjson no longer prints {field} as it did")) }
}

/// Returns the code of one module per package, nested like their names, because prost's paths between packages use
/// `super`.
fn tree(packages: &BTreeMap<String, String>) -> String {
    let mut code = String::new();
    let mut open: Vec<&str> = Vec::new();
    for (package, content) in packages {
        let path: Vec<&str> = package.split('.').collect();
        let shared = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
        code.push_str(&"}\n".repeat(open.len() - shared));
        for name in &path[shared..] {
            let _ = writeln!(code, "pub mod {name} {{");
        }
        code.push_str(content);
        open = path;
    }
    code + &"}\n".repeat(open.len())
}

/// Corrects names in which the conversion of cases splits the plural of IDP into two words.
fn spelled(code: &str) -> String {
    code.replace("IdPs", "Idps").replace("ID_PS", "IDPS")
}
