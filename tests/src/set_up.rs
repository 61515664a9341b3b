//! A log that is set up once, for all tests that need one.

use std::fs;

use tempfile::TempDir;

use crate::{
    instance::Bootstrap,
    platform::Platform,
    servers::Servers,
    template::{Template, copy},
};

/// A log that was set up.
pub(crate) struct SetUp {
    /// A copy of the servers' folder, with its master key.
    pub(crate) servers: TempDir,
    /// What the setup has created.
    pub(crate) bootstrap: Bootstrap,
    /// An access token of the service user with all rights.
    pub(crate) token: String,
}

/// Copies a log that was set up, with its servers.
pub(crate) async fn set_up() -> SetUp {
    let template = Template::find("set-up", async |folder| {
        let servers = Servers::start().await;
        let mut platform = Platform::start_with(&servers.flags(), &[]).await;
        platform.ready().await;
        let token = platform.client().await.token;
        platform.stop().await;
        fs::write(folder.join("token"), token).expect("the folder can be written");
        copy(&platform.data().join("bootstrap.json"), &folder.join("bootstrap.json"));
        copy(servers.stop().await.path(), &folder.join("servers"));
    });
    let template = template.await;
    let servers = tempfile::tempdir().expect("a temporary folder can be made");
    copy(&template.folder.join("servers"), servers.path());
    let read = |file: &str| fs::read_to_string(template.folder.join(file)).expect("the template is whole");
    let bootstrap = serde_json::from_str(&read("bootstrap.json")).expect("it is JSON");
    SetUp { servers, bootstrap, token: read("token") }
}
