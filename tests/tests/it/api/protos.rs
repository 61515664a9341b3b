//! The proto files that a node serves, compiled like by their users.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use prost::Message;
use prost_types::FileDescriptorSet;
use tests::{tenant::Shared, tools};

/// Whether the program is installed with the files of Google that every compiler includes, in Debian as a separate
/// package.
fn is_complete(protoc: &Path) -> bool {
    let root = protoc.parent().and_then(Path::parent).unwrap_or(protoc);
    root.join("include/google/protobuf/descriptor.proto").exists()
}

#[tokio::test]
async fn the_proto_files_of_a_node_compile_with_the_protoc_of_debian() {
    let Some(protoc) = tools::on_path("protoc").filter(|protoc| is_complete(protoc)) else {
        return tools::skip_unless_root("protoc");
    };
    let shared = Shared::find().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let url = format!("{}/protos/sources.tar", shared.bootstrap.issuer);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let archive = http.get(url).send().await.expect("it answers").bytes().await.expect("a body");
    std::fs::write(folder.path().join("sources.tar"), archive).expect("the folder can be written");
    let compile = "tar -xf sources.tar && \"$0\" -I . --include_source_info --descriptor_set_out=set.binpb \
        --python_out=. $(find platform google -name '*.proto')";
    let mut command = Command::new("sh");
    command.args(["-euc", compile]).arg(&protoc).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().expect("there is a shell");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("platform/"), "{told}");
    let set = std::fs::read(folder.path().join("set.binpb")).expect("it was written");
    let set = FileDescriptorSet::decode(&*set).expect("it is a descriptor set");
    let mut services = set.file.iter().flat_map(|file| &file.service);
    assert!(services.any(|service| service.name() == "PlatformActions"));
    assert!(folder.path().join("platform/action_pb2.py").exists());
}
