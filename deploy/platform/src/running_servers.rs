//! Finds the servers for tools: by the flags given, else by the files of a running standalone platform in its data
//! directory. Tools are no platforms themselves, and take no lock.

use std::{fs, io, path::Path};

use crate::{
    Failure,
    child::identity::Identity,
    cli,
    data_dir::{DataDir, io_error},
    node,
};

/// Returns the flags of the NATS server, with everything that is needed to connect and to read its settings.
pub(crate) fn nats(servers: &cli::Servers) -> Result<cli::Nats, Failure> {
    let flags = servers.nats.clone();
    if flags.nats_url.is_some() {
        return Ok(flags);
    }
    let folder = servers.data_dir.as_ref();
    let folder = folder.ok_or("no NATS is named: give --nats-url, or --data-dir of a running standalone platform")?;
    is_own(folder, "nats", "--nats-url")?;
    let files = folder.join("nats");
    let (ports, token) = (read(&files.join("ports"))?, read(&files.join("token"))?);
    let mut ports = ports.split_whitespace();
    let (Some(port), Some(monitor_port)) = (ports.next(), ports.next()) else {
        return Err(format!("{} does not hold two ports", files.join("ports").display()).into());
    };
    Ok(cli::Nats {
        nats_url: Some(format!("nats://127.0.0.1:{port}")),
        nats_token: Some(token),
        nats_monitor_url: Some(format!("http://127.0.0.1:{monitor_port}")),
        ..flags
    })
}

/// Returns the address of Postgres.
pub(crate) fn postgres(servers: &cli::Servers, given: Option<&String>) -> Result<String, Failure> {
    if let Some(url) = given {
        return Ok(url.clone());
    }
    let folder = servers.data_dir.as_ref();
    let folder =
        folder.ok_or("no Postgres is named: give --postgres-url, or --data-dir of a running standalone platform")?;
    is_own(folder, "postgres", "--postgres-url")?;
    let port = read(&folder.join("postgres.port"))?;
    let port = port.parse().map_err(|_| "postgres.port does not hold a port")?;
    Ok(crate::postgres::url(port, &read(&folder.join("postgres.password"))?))
}

/// Connects to NATS under the name of a tool.
pub(crate) async fn connect(nats: &cli::Nats, tool: &str) -> Result<async_nats::Client, Failure> {
    node::connect(nats, nats.nats_url.as_deref().unwrap_or_default(), "tool", tool).await
}

/// Fails unless the platform that runs on a data directory has started this server itself.
fn is_own(folder: &Path, server: &str, flag: &str) -> Result<(), Failure> {
    let shown = folder.display();
    if DataDir::running(folder)?.is_none() {
        return Err(format!(
            "nothing runs on {shown}: start it (`make up`, or `platform servers --data-dir {shown}` for its servers \
             only), or give {flag}"
        )
        .into());
    }
    let pid_file = folder.join(format!("{server}.pid"));
    let process = match fs::read_to_string(&pid_file) {
        Ok(line) => Identity::from_line(&line),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error("read", &pid_file)(error).into()),
    };
    if process.is_some_and(|process| process.is_alive()) {
        return Ok(());
    }
    Err(format!("the platform on {shown} has no {server} server of its own: give {flag}, as it was given").into())
}

fn read(path: &Path) -> Result<String, Failure> {
    Ok(fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(io_error("read", path))?)
}
