//! Password hashes of other systems: a refused hash matches no password, and none ends the process.

use base::password::{hash_fault, is_hash_of};

use crate::{mutate::mutate, random::Random, run};

/// A target for a hash.
pub(crate) struct Hashes;

/// The hashes of [`PASSWORD`] by other systems.
const SEEDS: [&str; 7] = [
    "$argon2id$v=19$m=256,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$bDxMHTn5tn5pgr7ylve8rh43Uf/d2uwTEv1HLyehZ0w",
    "$argon2i$v=19$m=256,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$Y7GuD4VT7y0TN07eH9XfP9W8ZXUyJuq3A8LAxhnMu6Q",
    "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2",
    "$scrypt$ln=4,r=4,p=1$c2FsdHNhbHRzYWx0c2FsdA$HLDBWUyFOTytkBqmO4+kGymPk6dQ6YhG6MgX1BK3ukY",
    "$pbkdf2$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$nrzvkouyv/SqEfwhHZY1HNqT++DR9LUrS+x/rlwB7p4",
    "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$vziugTYXn+vq18wXgJqgh9qsyB3sQnHKAWx1PZZ1kkA",
    "$pbkdf2-sha512$1000$DgHgfK.VEkIoZSwlJATgHA$Uc04nYFXobu3UT0aktANAEi1WoBuppnK941BF83goPvPyeUJSx1iFEZ6plAg7tjEU4GaFtkNFqcDhxtdBRZijg",
];
const PASSWORD: &str = "correct horse \u{e9}";

const WORDS: [&str; 18] = [
    "$",
    "$$",
    "$2a$",
    "$2x$",
    "$2y$31$",
    "argon2d",
    "argon2",
    "scrypt",
    "pbkdf2-sha1",
    "v=16",
    "m=",
    "t=0",
    "p=255",
    "ln=0",
    "i=4294967295",
    "l=64",
    "keyid=",
    "data=",
];

impl run::Target for Hashes {
    fn seeds(&mut self, _: &mut Random) -> Vec<Vec<u8>> {
        SEEDS.map(|hash| hash.as_bytes().to_vec()).to_vec()
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        mutate(input, other, &WORDS.map(str::to_owned), random);
    }

    fn check(&mut self, input: &[u8]) -> String {
        let Ok(hash) = std::str::from_utf8(input) else { return "no text".to_owned() };
        let algorithm = hash.split('$').nth(1).unwrap_or_default();
        match hash_fault(hash) {
            Some(fault) => {
                assert!(!is_hash_of(hash, PASSWORD), "what is refused is the hash of nothing");
                fault.to_owned()
            }
            None if is_quick(hash) => format!("{algorithm} {}", is_hash_of(hash, PASSWORD)),
            None => format!("{algorithm} takes long"),
        }
    }
}

/// Whether a hash can be checked quickly without optimisation.
fn is_quick(hash: &str) -> bool {
    let parts: Vec<_> = hash.split('$').collect();
    let numbers = |part: &str| {
        let numbers = part.split(|of: char| !of.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok());
        numbers.collect::<Vec<_>>()
    };
    match &parts[..] {
        [_, "scrypt", parameters, ..] => {
            matches!(numbers(parameters)[..], [log_n @ 0..=5, r, p] if (r << log_n).saturating_mul(p) <= 128)
        }
        [_, algorithm, parameters, ..] if algorithm.starts_with("pbkdf2") => {
            numbers(parameters).iter().copied().fold(1, u64::saturating_mul) <= 64_000
        }
        [_, algorithm, _, parameters, ..] if algorithm.starts_with("argon2") => {
            numbers(parameters).iter().copied().fold(1, u64::saturating_mul) <= 64_000
        }
        _ => false,
    }
}
