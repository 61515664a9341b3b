//! Algorithms of tokens in the API's words.

use proto::object::TokenAlgorithm;

/// The JWA names; the usual one has none.
const NAMES: [(TokenAlgorithm, &str); 6] = [
    (TokenAlgorithm::Rs256, "RS256"),
    (TokenAlgorithm::Rs384, "RS384"),
    (TokenAlgorithm::Rs512, "RS512"),
    (TokenAlgorithm::Es256, "ES256"),
    (TokenAlgorithm::Es384, "ES384"),
    (TokenAlgorithm::Eddsa, "EdDSA"),
];

/// The JWA name of an algorithm; `None` where it is the usual one.
pub(crate) fn name(algorithm: TokenAlgorithm) -> Option<String> {
    NAMES.iter().find(|(known, _)| *known == algorithm).map(|(_, name)| (*name).to_owned())
}

/// The algorithm of a name.
pub(crate) fn shown(name: Option<&str>) -> TokenAlgorithm {
    let found = NAMES.iter().find(|(_, known)| Some(*known) == name);
    found.map_or(TokenAlgorithm::Unspecified, |(algorithm, _)| *algorithm)
}
