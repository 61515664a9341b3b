//! The file that tells how the first person logs in, with a one-time password.

use std::path::{Path, PathBuf};

use command::setup::FirstPerson;
use jiff::{Timestamp, tz::TimeZone};

use crate::{Failure, data_dir::write_atomically};

/// The details of a first login.
pub(crate) struct FirstLogin<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) username: &'a str,
    pub(crate) password: &'a str,
    /// When the password expires, in milliseconds since the Unix epoch.
    pub(crate) expires_at: i64,
}

impl<'a> FirstLogin<'a> {
    /// Returns the first login of a person at an issuer.
    pub(crate) fn of(issuer: &'a str, FirstPerson { person, password, expires_at, .. }: &'a FirstPerson) -> Self {
        Self { issuer, username: &person.username, password, expires_at: *expires_at }
    }

    /// Writes it to a file that only its owner may read.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        Ok(write_atomically(path, self.text().as_bytes())?)
    }

    fn text(&self) -> String {
        let Self { issuer, username, password, expires_at } = self;
        let until = Timestamp::from_millisecond(*expires_at).unwrap_or_default().to_zoned(TimeZone::UTC);
        format!(
            "open: {issuer}/ui/login\nlogin name: {username}\none-time password: {password}\n\n\
             The password is valid until {}; at the login a new one is chosen.\n\
             Another one-time password: platform bootstrap renew --first-person\n",
            until.strftime("%Y-%m-%d %H:%M UTC")
        )
    }
}

/// Returns the path of the file in a data directory.
pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join("first-login")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_to_log_in_and_until_when() {
        let login = FirstLogin {
            issuer: "https://id.example",
            username: "ada",
            password: "f3Kq-9TzB-x7Lm-2WcN",
            expires_at: 1_764_763_200_000,
        };
        assert!(login.text().starts_with(
            "open: https://id.example/ui/login\nlogin name: ada\none-time password: f3Kq-9TzB-x7Lm-2WcN\n\n\
             The password is valid until 2025-12-03 12:00 UTC;"
        ));
    }
}
