//! Handlers that create, change and delete identity providers. The requests of each type have a line in [`mount`].

use std::sync::Arc;

use api::idp::{Wish, type_of, wish};
use base::signing::is_for_es256;
use domain::{rejection::Rejection, resource::idp::Idp, reusable::Policy, secret::Sealed};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use proto::{
    idp::{
        CreateCodeHostAesidpRequest, CreateCodeHostAidpRequest, CreateCodeHostBSelfHostedIdpRequest,
        CreateCodeHostBidpRequest, CreateDirectoryAidpRequest, CreateJwtidpRequest, CreateLdapidpRequest,
        CreateOAuthIdpRequest, CreateOidcidpRequest, CreateSamlidpRequest, CreateSocialAidpRequest,
        CreateSocialBidpRequest, DeactivateIdpRequest, DeleteIdpRequest, PatchCodeHostAesidpRequest,
        PatchCodeHostAidpRequest, PatchCodeHostBSelfHostedIdpRequest, PatchCodeHostBidpRequest,
        PatchDirectoryAidpRequest, PatchJwtidpRequest, PatchLdapidpRequest, PatchOAuthIdpRequest, PatchOidcidpRequest,
        PatchSamlidpRequest, PatchSocialAidpRequest, PatchSocialBidpRequest, ReactivateIdpRequest,
    },
    shape::{Identified, Request},
};
use tokio_rustls::rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject},
};
use view::{keyring::Purpose, settings::instance_of};

use crate::{
    execute::Commands,
    reusable::{self, RequestedChange, deactivate, delete, reactivate},
    standard::{self, NewResource, Plain},
};

/// Binds a sealed secret to its use.
const SEALED: &str = "idp-secret";

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    let types = [
        written::<CreateCodeHostBidpRequest, PatchCodeHostBidpRequest>,
        written::<CreateOidcidpRequest, PatchOidcidpRequest>,
        written::<CreateJwtidpRequest, PatchJwtidpRequest>,
        written::<CreateLdapidpRequest, PatchLdapidpRequest>,
        written::<CreateOAuthIdpRequest, PatchOAuthIdpRequest>,
        written::<CreateDirectoryAidpRequest, PatchDirectoryAidpRequest>,
        written::<CreateCodeHostAidpRequest, PatchCodeHostAidpRequest>,
        written::<CreateCodeHostAesidpRequest, PatchCodeHostAesidpRequest>,
        written::<CreateCodeHostBSelfHostedIdpRequest, PatchCodeHostBSelfHostedIdpRequest>,
        written::<CreateSocialAidpRequest, PatchSocialAidpRequest>,
        written::<CreateSocialBidpRequest, PatchSocialBidpRequest>,
        written::<CreateSamlidpRequest, PatchSamlidpRequest>,
    ];
    let mounting = types.iter().fold(mounting, |mounting, written| written(mounting));
    mounting
        .on(deactivate::<Idp, DeactivateIdpRequest>)
        .on(reactivate::<Idp, ReactivateIdpRequest>)
        .on(delete::<Idp, DeleteIdpRequest>)
}

/// Mounts the create and patch operations of one type.
fn written<C, P>(mounting: Mounting<Commands>) -> Mounting<Commands>
where
    C: Request<Response: Plain>,
    P: Identified<Response: Plain>,
{
    assert_eq!(type_of::<C>(), type_of::<P>(), "both are about the same type");
    mounting.on(create::<C>).on(patch::<P>)
}

async fn create<I: Request<Response: Plain>>(
    commands: Arc<Commands>,
    call: Call,
    request: I,
) -> Result<Answer<I::Response>, Error> {
    let wish = wish(&request).map_err(|error| Error::internal(&error))?;
    if wish.policy.is_some_and(|policy| policy != Policy::Inherit) {
        let rule = "must be STATE_POLICY_INHERIT or absent: a policy is for contexts below that of the resource";
        return Err(Rejection::invalid("idp.idp.state_policy", rule).into());
    }
    let mut idp = wish.new_idp().map_err(|error| Error::internal(&error))?;
    idp.secret = sealed(&commands, &call, &wish).await?;
    standard::create(&commands, &call, &request, NewResource { owner: call.context.clone(), resource: idp }, Into::into)
        .await
}

async fn patch<I: Identified<Response: Plain>>(
    commands: Arc<Commands>,
    call: Call,
    request: I,
) -> Result<Answer<I::Response>, Error> {
    let wish = wish(&request).map_err(|error| Error::internal(&error))?;
    let mut patch = wish.patch();
    patch.secret = sealed(&commands, &call, &wish).await?;
    let sealed_in = patch.secret.as_ref().map(|_| instance_of(&call.tenant.id, &call.context).to_owned());
    reusable::patch_with::<Idp, _>(
        &commands,
        &call,
        &request,
        RequestedChange { patch, policy: wish.policy, sealed_in },
    )
    .await
}

/// Checks the certificates and the secret of a request, and returns the secret, sealed for the instance that stores the
/// provider. It is sealed outside of the turn, which waits for nothing.
async fn sealed(commands: &Commands, call: &Call, wish: &Wish) -> Result<Option<Sealed>, Error> {
    if let Some(root_ca) = wish.config.get("root_ca").and_then(|text| text.as_str())
        && !root_ca.is_empty()
        && !are_certificates(root_ca)
    {
        return Err(Rejection::invalid("idp.config.root_ca", "must be certificates in PEM, and nothing else").into());
    }
    let Some(secret) = &wish.secret else { return Ok(None) };
    if wish.of.secret == Some("private_key") && !is_private_key(secret) {
        return Err(
            Rejection::invalid("idp.config.private_key", "must be a private key for P-256, PKCS #8 in PEM").into()
        );
    }
    let instance_id = instance_of(&call.tenant.id, &call.context);
    let data_key = commands.keyring.key(instance_id, Purpose::Resource).await.map_err(unavailable)?;
    Ok(Some(Sealed::new(data_key.seal(SEALED, secret.as_bytes()))))
}

fn are_certificates(pem: &str) -> bool {
    // A private key next to them would be shown to everybody who reads the provider.
    if pem.matches("-----BEGIN ").count() != pem.matches("-----BEGIN CERTIFICATE-----").count() {
        return false;
    }
    let mut store = RootCertStore::empty();
    let added = CertificateDer::pem_slice_iter(pem.as_bytes()).map(|found| store.add(found.ok()?).ok());
    added.collect::<Option<Vec<()>>>().is_some_and(|added| !added.is_empty())
}

fn is_private_key(pem: &str) -> bool {
    PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).is_ok_and(|key| is_for_es256(key.secret_pkcs8_der()))
}
