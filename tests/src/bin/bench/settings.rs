//! The cost of resolving settings in process, where many contexts set some.

use std::{hint::black_box, time::Instant};

use api::settings::ResolvedSettings;
use domain::{
    context::Owner,
    setting::{
        branding::Branding, domains::Domains, features::Features, help::Help, languages::Languages, lockout::Lockout,
        login::Login, oidc::Oidc, password::Password, texts::Texts,
    },
    settings::{Event, Properties, Settings},
};
use eventlog::{
    log::Follower,
    record::{CommitRecord, Event as Written, Record, encode, owner_type},
};
use view::settings::{SettingsIndex, key};

/// How many organizations set their languages.
const ORGANIZATIONS: u64 = 100_000;
/// How often one service is resolved, and how often all are.
const LOOKS: u32 = 1_000_000;
const LOOKS_AT_ALL: u32 = 20_000;
/// How many texts of pages an instance replaces.
const TEXTS: u64 = 20;
const INSTANCE: &str = "1";

pub(crate) fn measure() {
    let mut index = SettingsIndex::default();
    let languages = |default: &str| Languages {
        default_language: Some(default.to_owned()),
        restricted_languages: Some(["en", "de", "fr"].map(str::to_owned).to_vec()),
    };
    set(&mut index, 1, &Owner::instance(INSTANCE), languages("fr"));
    let flags = Features { multitenancy_settings: Some(true), ..Features::default() };
    set(&mut index, 2, &Owner::instance(INSTANCE), flags);
    for number in 3..ORGANIZATIONS + 3 {
        set(&mut index, number, &Owner::organization(number.to_string()), languages("de"));
    }
    println!("| resolved of {ORGANIZATIONS} organizations | time |\n|---|---|");
    set_of_all_services(&mut index, ORGANIZATIONS + 3);
    let both = |context: &Owner| {
        let chain = index.effective::<Languages>(INSTANCE, context).chain;
        (chain.default_language().value.len(), chain.restricted_languages().value.len())
    };
    let organizations: Vec<_> = (3..1003).map(|number: u64| Owner::organization(number.to_string())).collect();
    time_lookup("the languages of an organization that sets them (to reach: 2 µs)", LOOKS, |at| {
        both(&organizations[at % 1000])
    });
    let other = Owner::organization("none");
    time_lookup("the languages of one that sets none (to reach: 2 µs)", LOOKS, |_| both(&other));
    let instance = Owner::instance(INSTANCE);
    time_lookup("a flag of the instance, as each request asks (to reach: 2 µs)", LOOKS, |_| {
        index.effective::<Features>(INSTANCE, &instance).chain.has("multitenancy_settings")
    });
    time_lookup("all settings of an organization, as they are answered (to reach: 20 µs)", LOOKS_AT_ALL, |at| {
        all(&index, &organizations[at % 1000])
    });
}

/// Sets every property of every service in the instance, so that resolving each for an organization looks at both
/// contexts.
fn set_of_all_services(index: &mut SettingsIndex, first: u64) {
    let instance = Owner::instance(INSTANCE);
    macro_rules! every {
        ($sequence:expr; $($service:ident)+) => {{
            let mut sequence = $sequence;
            $(
                set(index, sequence, &instance, $service::defaults().clone());
                sequence += 1;
            )+
            sequence
        }};
    }
    let next = every!(first; Branding Domains Help Lockout Login Oidc Password);
    let texts = (0..TEXTS).map(|number| (format!("login.text_{number}"), "Welcome".to_owned())).collect();
    set_variant(index, next, (&instance, "en"), Texts { texts });
}

/// Returns the answers of all services for one context.
fn all(index: &SettingsIndex, context: &Owner) -> impl Sized {
    fn of<P: ResolvedSettings>(index: &SettingsIndex, context: &Owner, variant: &str) -> impl Sized {
        P::resolved(context, &index.effective_of::<P>(INSTANCE, context, variant).chain)
    }
    macro_rules! every {
        ($($service:ident)+) => { ($(of::<$service>(index, context, ""),)+ of::<Texts>(index, context, "en")) };
    }
    every!(Branding Domains Features Help Languages Lockout Login Oidc Password)
}

fn set<P: Properties>(index: &mut SettingsIndex, sequence: u64, context: &Owner, to: P) {
    set_variant(index, sequence, (context, ""), to);
}

fn set_variant<P: Properties>(index: &mut SettingsIndex, sequence: u64, (context, variant): (&Owner, &str), to: P) {
    let (r#type, payload) = encode::<Settings<P>>(&Event::Changed { to: to.into(), fields: vec![] });
    let key = key::<P>(INSTANCE, context, variant);
    let written = Written {
        instance_id: key.instance_id,
        owner_type: owner_type(context.kind),
        owner_id: context.id.clone(),
        aggregate_type: key.aggregate_type,
        aggregate_id: key.id,
        r#type,
        revision: 1,
        payload,
        ..Written::default()
    };
    let commit = CommitRecord { first_sequence: sequence, events: vec![written], ..CommitRecord::default() };
    index.apply(&Record::new(sequence, [0; 32], commit));
}

fn time_lookup<T>(what: &str, times: u32, resolve: impl Fn(usize) -> T) {
    let begun = Instant::now();
    for at in 0..times as usize {
        black_box(resolve(black_box(at)));
    }
    println!("| {what} | {:.0} ns |", begun.elapsed().as_secs_f64() * 1e9 / f64::from(times));
}
