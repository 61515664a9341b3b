//! Passwords of people: how they are hashed, which hashes of other systems are accepted, and which passwords are easy
//! to guess. All functions take noticeable processor time and memory.

use std::{num::NonZeroU32, sync::LazyLock};

use argon2::{
    Algorithm, Argon2, Params, PasswordHash, Version,
    password_hash::{PasswordHasher, PasswordVerifier},
};
use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA512};
use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;
use zxcvbn::{Score, zxcvbn};

use crate::secret;

/// Returns the cost of a new hash, as memory in KiB and passes: about 36 ms of a processor. Tests that break things
/// make many.
const fn cost(is_cheap: bool) -> (u32, u32) {
    if is_cheap { (64, 1) } else { (19_456, 2) }
}

/// The most that a hash of another system may take, each about a second: memory of argon2 in KiB, and that times its
/// passes.
const MOST_MEMORY_KIB: u32 = 131_072;
const MOST_ARGON2: u64 = 1 << 19;
/// N times r times p of scrypt; a block takes 128 bytes.
const MOST_SCRYPT: u64 = 1 << 20;
/// The cost of bcrypt.
const MOST_BCRYPT: u32 = 14;
/// The rounds of PBKDF2, times the outputs of the digest that make up the hash.
const MOST_ROUNDS: u64 = 2_000_000;
/// How many characters of a password are considered to estimate how easy it is to guess. One of only digits and signs
/// that stand for letters takes 77 ms then.
const LOOKED_AT: usize = 32;

/// Returns a password in one form, however it was typed: composed (NFC), and with plain spaces for others, as the
/// profile for passwords requires (RFC 8265, section 4.2).
pub fn prepared(typed: &str) -> Zeroizing<String> {
    // The capacity suffices for every result: growing would leave parts of it where it was before.
    let mut prepared = Zeroizing::new(String::with_capacity(4 * typed.len()));
    let is_space = |of: char| of.is_whitespace() && !of.is_control();
    prepared.extend(typed.chars().map(|of| if is_space(of) { ' ' } else { of }).nfc());
    prepared
}

/// Hashes a password with argon2id and a new salt, in the PHC string format.
pub fn hash(password: &str) -> Zeroizing<String> {
    let (memory, passes) = cost(cfg!(feature = "fault"));
    let params = Params::new(memory, passes, 1, None).expect("they are in range");
    let salt = secret::random::<16>();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2
        .hash_password_with_salt(prepared(password).as_bytes(), &salt)
        .expect("password and salt have lengths it takes");
    Zeroizing::new(hash.to_string())
}

/// Whether a hash, of this system or of another, matches a password. Another system may have hashed it as it was typed.
pub fn is_hash_of(hash: &str, password: &str) -> bool {
    let Ok(form) = Form::of(hash) else { return false };
    let prepared = prepared(password);
    form.matches(prepared.as_bytes()) || *prepared != password && form.matches(password.as_bytes())
}

/// Returns the hash of a password that nobody has: comparing with it takes as long as with that of a person.
pub fn dummy_hash() -> &'static str {
    static HASH: LazyLock<Zeroizing<String>> = LazyLock::new(|| hash(&secret::random_secret()));
    &HASH
}

/// Whether a hash is of another kind than new ones, or takes less effort to crack.
pub fn is_outdated(hash: &str) -> bool {
    let (memory, passes) = cost(cfg!(feature = "fault"));
    argon2id(hash).is_none_or(|of| of[0] < memory || of[1] < passes)
}

/// Whether a hash has the cost of new ones.
pub fn is_usual(hash: &str) -> bool {
    let (memory, passes) = cost(cfg!(feature = "fault"));
    argon2id(hash) == Some([memory, passes, 1])
}

/// Returns the cost of a hash of the kind of new ones: memory in KiB, passes and lanes.
fn argon2id(hash: &str) -> Option<[u32; 3]> {
    let Ok(Form::Argon2(phc)) = Form::of(hash) else { return None };
    let is_newest = phc.algorithm.as_str() == "argon2id" && phc.version == Some(Version::V0x13.into());
    let [memory, passes, lanes] = ["m", "t", "p"].map(|name| phc.params.get_decimal(name));
    is_newest.then_some([memory?, passes?, lanes?])
}

/// Returns what is wrong with a hash of another system, phrased to follow its name.
pub fn hash_fault(hash: &str) -> Option<&'static str> {
    Form::of(hash).err()
}

/// Whether a password is a common one, or is easily derived from common ones or from what is known about the person.
pub fn is_guessable(password: &str, about: &[&str]) -> bool {
    let looked_at: Zeroizing<String> = Zeroizing::new(prepared(password).chars().take(LOOKED_AT).collect());
    // Each text is one word to the library, and people leave out what stands between the words.
    let is_between = |of: char| !of.is_alphanumeric();
    let joined: Vec<String> = about.iter().map(|text| text.replace(is_between, "")).collect();
    let words = about.iter().flat_map(|text| text.split(is_between)).filter(|word| word.chars().count() > 2);
    let about: Vec<&str> = about.iter().copied().chain(words).chain(joined.iter().map(String::as_str)).collect();
    zxcvbn(&looked_at, &about).score() < Score::Two
}

/// A hash that can be checked within bounds.
enum Form {
    Argon2(Box<PasswordHash>),
    Bcrypt(String),
    Scrypt { params: scrypt::Params, salt: Vec<u8>, hash: Vec<u8> },
    Pbkdf2 { algorithm: pbkdf2::Algorithm, rounds: NonZeroU32, salt: Vec<u8>, hash: Vec<u8> },
}

const UNKNOWN: &str = "must be a hash of argon2, scrypt or pbkdf2 in the PHC string format, or of bcrypt";
const COSTLY: &str = "takes more memory or time than a password check may";

impl Form {
    fn of(text: &str) -> Result<Self, &'static str> {
        let algorithm = text.split('$').nth(1).unwrap_or_default();
        if ["2a", "2b", "2y"].contains(&algorithm) {
            return Self::bcrypt(text);
        }
        let phc = PasswordHash::new(&as_phc(text)).map_err(|_| UNKNOWN)?;
        let number = |name: &str| phc.params.get_decimal(name).ok_or(UNKNOWN);
        // A missing or newer parameter would make the check differ from how the other system has hashed.
        let has_only = |names: &[&str]| phc.params.iter().all(|(name, _)| names.contains(&name.as_str()));
        let (Some(salt), Some(hash)) = (phc.salt, phc.hash) else { return Err(UNKNOWN) };
        let (salt, hash) = (salt.to_vec(), hash.as_bytes().to_vec());
        match algorithm {
            "scrypt" if has_only(&["ln", "r", "p"]) && phc.version.is_none() => {
                Self::scrypt(number("ln")?, number("r")?, number("p")?, salt, hash)
            }
            "argon2id" | "argon2i" | "argon2d" if has_only(&["m", "t", "p"]) => {
                let cost = u64::from(number("m")?) * u64::from(number("t")?);
                let is_known = number("p").is_ok() && phc.version.is_some_and(|it| Version::try_from(it).is_ok());
                if number("m")? > MOST_MEMORY_KIB || cost > MOST_ARGON2 {
                    return Err(COSTLY);
                }
                if is_known && Params::try_from(&phc).is_ok() { Ok(Self::Argon2(Box::new(phc))) } else { Err(UNKNOWN) }
            }
            _ if has_only(&["i", "l"]) && phc.version.is_none() => {
                let (algorithm, output) = match algorithm {
                    "pbkdf2" | "pbkdf2-sha1" => (PBKDF2_HMAC_SHA1, 20),
                    "pbkdf2-sha256" => (PBKDF2_HMAC_SHA256, 32),
                    "pbkdf2-sha512" => (PBKDF2_HMAC_SHA512, 64),
                    _ => return Err(UNKNOWN),
                };
                let said = phc.params.get_decimal("l").map_or(Some(hash.len()), |it| usize::try_from(it).ok());
                let rounds = NonZeroU32::new(number("i")?).filter(|_| said == Some(hash.len())).ok_or(UNKNOWN)?;
                let outputs = u64::try_from(hash.len().div_ceil(output)).unwrap_or(u64::MAX);
                if u64::from(rounds.get()) * outputs > MOST_ROUNDS {
                    return Err(COSTLY);
                }
                Ok(Self::Pbkdf2 { algorithm, rounds, salt, hash })
            }
            _ => Err(UNKNOWN),
        }
    }

    fn bcrypt(text: &str) -> Result<Self, &'static str> {
        let parts: bcrypt::HashParts = text.parse().map_err(|_| UNKNOWN)?;
        // The library accepts a sign as part of the number.
        let is_number = text.bytes().skip(4).take(2).all(|of| of.is_ascii_digit());
        match parts.get_cost() {
            _ if !is_number => Err(UNKNOWN),
            4..=MOST_BCRYPT => Ok(Self::Bcrypt(text.to_owned())),
            15..=31 => Err(COSTLY),
            _ => Err(UNKNOWN),
        }
    }

    fn scrypt(log_n: u32, r: u32, p: u32, salt: Vec<u8>, hash: Vec<u8>) -> Result<Self, &'static str> {
        let most =
            u64::from(r).saturating_mul(u64::from(p)).saturating_mul(1_u64.checked_shl(log_n).unwrap_or(u64::MAX));
        if most > MOST_SCRYPT {
            return Err(COSTLY);
        }
        if log_n == 0 {
            return Err(UNKNOWN);
        }
        let params = u8::try_from(log_n).ok().and_then(|log_n| scrypt::Params::new(log_n, r, p).ok()).ok_or(UNKNOWN)?;
        Ok(Self::Scrypt { params, salt, hash })
    }

    fn matches(&self, password: &[u8]) -> bool {
        match self {
            Self::Argon2(hash) => Argon2::default().verify_password(password, hash.as_ref()).is_ok(),
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or_default(),
            Self::Scrypt { params, salt, hash } => {
                let mut found = Zeroizing::new(vec![0; hash.len()]);
                scrypt::scrypt(password, salt, params, &mut found).is_ok() && secret::constant_time_eq(&found, hash)
            }
            Self::Pbkdf2 { algorithm, rounds, salt, hash } => {
                pbkdf2::verify(*algorithm, *rounds, salt, password, hash).is_ok()
            }
        }
    }
}

/// Returns a hash in the PHC string format: some systems pad its parts, write the rounds of PBKDF2 without a name, or
/// `.` for `+`.
fn as_phc(text: &str) -> String {
    let mut parts: Vec<_> = text.split('$').map(str::to_owned).collect();
    if text.starts_with("$pbkdf2") {
        if let [_, _, rounds, ..] = &mut parts[..]
            && !rounds.is_empty()
            && rounds.bytes().all(|of| of.is_ascii_digit())
        {
            *rounds = format!("i={rounds}");
        }
        parts.iter_mut().skip(3).for_each(|part| *part = part.replace('.', "+"));
    }
    // The salt and the hash.
    parts.iter_mut().skip(3).for_each(|part| part.truncate(part.trim_end_matches('=').len()));
    parts.join("$")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "correct horse \u{e9}";
    /// Hashes of the same password by other systems.
    const HASHES: [&str; 13] = [
        "$argon2id$v=19$m=256,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$bDxMHTn5tn5pgr7ylve8rh43Uf/d2uwTEv1HLyehZ0w",
        "$argon2i$v=19$m=256,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$Y7GuD4VT7y0TN07eH9XfP9W8ZXUyJuq3A8LAxhnMu6Q",
        "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2",
        "$scrypt$ln=10,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$Q3s5IVdQFpQ6Ztum566p9HYmSU9XwXf1xQaHluIcFzs",
        "$pbkdf2$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$nrzvkouyv/SqEfwhHZY1HNqT++DR9LUrS+x/rlwB7p4",
        "$pbkdf2-sha1$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$nrzvkouyv/SqEfwhHZY1HNqT++DR9LUrS+x/rlwB7p4",
        "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$vziugTYXn+vq18wXgJqgh9qsyB3sQnHKAWx1PZZ1kkA",
        "$pbkdf2-sha512$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$BYCVja7FflbpYgkpLtVUNR3AYhqM0uTDND/cIU+k8pw",
        "$pbkdf2-sha256$1000$qbV2rtX6v/eeMwYAoPReCw$z.ckgic82Qx.b6PpgHPnDKLIf.pTPTnfB1R4MrMIDiA",
        "$pbkdf2$1000$6n2P0bqXEqJ0DgHgPGfMuQ$26wuIKD20mmd2zZzAiKokiMsmdY",
        "$pbkdf2-sha512$1000$DgHgfK.VEkIoZSwlJATgHA$Uc04nYFXobu3UT0aktANAEi1WoBuppnK941BF83goPvPyeUJSx1iFEZ6plAg7tjEU4GaFtkNFqcDhxtdBRZijg",
        "$pbkdf2-sha256$i=1000$c2FsdHNhbHRzYWx0c2FsdA==$vziugTYXn+vq18wXgJqgh9qsyB3sQnHKAWx1PZZ1kkA=",
        "$scrypt$ln=10,r=8,p=1$mFNqrVXKWYtxTgmBUMqZsw$WmLn7pCJxvl1aCRojnPC21tMf45awE9ptYS/igybKH8",
    ];

    #[test]
    fn hashes_of_this_system_and_of_others_are_those_of_their_password_only() {
        let own = hash(PASSWORD);
        assert_eq!(cost(false), (19_456, 2), "what tests take is not what is taken");
        assert!(own.starts_with("$argon2id$v=19$m=") && own != hash(PASSWORD), "{}", *own);
        for of in HASHES.into_iter().chain([own.as_str()]) {
            assert_eq!(hash_fault(of), None, "{of}");
            assert!(is_hash_of(of, PASSWORD), "{of}");
            assert!(!is_hash_of(of, "correct horse e") && !is_hash_of(of, ""), "{of}");
        }
    }

    #[test]
    fn hashes_of_others_and_cheaper_ones_are_outdated() {
        assert!(!is_outdated(&hash(PASSWORD)) && !is_outdated(dummy_hash()));
        let (memory, passes) = cost(cfg!(feature = "fault"));
        let of = |name: &str, version: u32, memory: u32, passes: u32| {
            format!(
                "${name}$v={version}$m={memory},t={passes},p=1$c2FsdHNhbHRzYWx0c2FsdA$4LOHyYgdqR3BH/XqBvhqh7Wcg8kyyBE1hSDz8vFnL4o"
            )
        };
        let costlier = of("argon2id", 19, memory * 2, passes + 1);
        assert!(!is_outdated(&costlier) && !is_usual(&costlier));
        assert!(is_usual(&hash(PASSWORD)) && is_usual(dummy_hash()) && !is_usual(HASHES[2]));
        for outdated in [
            of("argon2i", 19, memory, passes),
            of("argon2id", 16, memory, passes),
            of("argon2id", 19, memory - 1, passes + 1),
            HASHES[2].to_owned(),
            HASHES[3].to_owned(),
            String::new(),
        ] {
            assert!(is_outdated(&outdated), "{outdated}");
        }
    }

    #[test]
    fn what_takes_too_much_or_is_no_hash_is_refused() {
        let rest = "c2FsdHNhbHRzYWx0c2FsdA$4LOHyYgdqR3BH/XqBvhqh7Wcg8kyyBE1hSDz8vFnL4o";
        let salted = |head: &str| format!("{head}${rest}");
        let of_bcrypt = |cost: &str| HASHES[2].replace("$04$", &format!("${cost}$"));
        let long = |head: &str| format!("{head}$c2FsdHNhbHRzYWx0c2FsdA${}", "A".repeat(86));
        let costly = [
            salted("$argon2id$v=19$m=131073,t=1,p=1"),
            salted("$argon2id$v=19$m=131072,t=5,p=1"),
            salted("$argon2i$v=19$m=8,t=4294967295,p=1"),
            salted("$scrypt$ln=18,r=8,p=1"),
            salted("$scrypt$ln=17,r=8,p=2"),
            salted("$scrypt$ln=4294967295,r=1,p=1"),
            salted("$scrypt$ln=10,r=4294967295,p=4294967295"),
            salted("$pbkdf2-sha256$i=2000001,l=32"),
            salted("$pbkdf2$1000001"),
            long("$pbkdf2$500001"),
            long("$pbkdf2-sha256$1000001"),
            of_bcrypt("15"),
            of_bcrypt("31"),
        ];
        assert!(costly.iter().all(|hash| hash_fault(hash) == Some(COSTLY)), "{costly:?}");
        let mut unknown = ["", "$", "plain text", "$1$salt$x", "$argon2id$", "$2b$10$short", "$scrypt$ln=10$a$b"]
            .map(str::to_owned)
            .to_vec();
        let of = [
            "$argon2id$v=19$m=x,t=1,p=1",
            "$argon2id$v=19$t=1,p=1",
            "$scrypt$r=8,p=1",
            "$scrypt$ln=0,r=8,p=1",
            "$pbkdf2$0",
            "$pbkdf2$",
            "$md5",
            "$argon2id$v=20$m=64,t=2,p=1",
            "$argon2id$m=64,t=2,p=1",
            "$argon2id$v=19$m=64,t=2,p=1,keyid=YQ",
            "$scrypt$v=1$ln=10,r=8,p=1",
            "$scrypt$ln=10,r=8,p=1,x=1",
            "$pbkdf2$i=1000,prf=a",
            "$pbkdf2-sha3$i=1000",
            "$pbkdf2$i=1000,l=20",
        ];
        unknown.extend(of.map(salted));
        unknown.extend([of_bcrypt("03"), of_bcrypt("32"), of_bcrypt("4"), of_bcrypt("+4"), of_bcrypt("1000")]);
        // The last bits are set, which no hash uses.
        unknown.push(format!("$2b$10${}", "a".repeat(53)));
        unknown.push("$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA".to_owned());
        for hash in unknown {
            assert_eq!(hash_fault(&hash), Some(UNKNOWN), "{hash}");
            assert!(!is_hash_of(&hash, PASSWORD) && !is_hash_of(&hash, ""), "{hash}");
        }
    }

    #[test]
    fn a_password_is_the_same_however_it_was_typed() {
        let own = hash("correct\u{a0}horse e\u{301}");
        assert!(is_hash_of(&own, PASSWORD) && is_hash_of(&own, "correct horse e\u{301}"));
        assert!(!is_hash_of(&own, " correct horse \u{e9}") && !is_hash_of(&own, "correct\thorse \u{e9}"));
        // Another system has hashed what was typed.
        let raw = "$pbkdf2-sha256$i=1000$c2FsdHNhbHRzYWx0c2FsdA$NHWele6vXXNVZcmHt6BL8MTj5JssFuSSN+zuh1DuPZk";
        assert!(is_hash_of(raw, "correct\u{a0}horse e\u{301}") && !is_hash_of(raw, PASSWORD));
    }

    #[test]
    fn what_many_have_or_everybody_knows_of_somebody_is_guessable() {
        let about = ["ada.lovelace", "ada.lovelace@example.com", "Lovelace"];
        for password in [
            "password123",
            "1234567890",
            "qwertyuiop",
            "aaaaaaaaaaaa",
            "abcdefghijkl",
            "Passw0rd1!",
            "Lovelace1815",
            "ada.lovelace",
            "iloveyou123",
            "P@ssword2026",
        ] {
            assert!(is_guessable(password, &about), "{password}");
        }
        for password in ["nine-lives-of-a-tabby-cat", "correct horse \u{e9}", "Xq7#pLw2vT"] {
            assert!(!is_guessable(password, &about), "{password}");
        }
        assert!(is_guessable(&"\u{1f980}".repeat(200), &about));
        for (password, about) in [("augustaada1", "Augusta Ada"), ("41446681800", "+41446681800")] {
            assert!(is_guessable(password, &[about]), "{password}");
        }
    }
}
