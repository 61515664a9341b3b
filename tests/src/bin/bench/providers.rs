//! The search index of identity providers in comparison with that of as many targets: the cost of inheritance, by which
//! a context sees the providers above it, too, and may activate or deactivate them.

use domain::{
    context::Owner,
    resource::{
        idp::{self, Config, Idp, Options, client::Client},
        target::{self, Target},
    },
    standard::Resource,
};
use index::{Filter, Method, Page, Search, SortKey};
use view::{keyring::SYSTEM, table::Change};

use crate::search::{HEAD, ask, built, document, target};

const ORGANIZATIONS: usize = 10_000;
/// How many of each kind an organization has.
const EACH: usize = 3;
const ALL: usize = ORGANIZATIONS * EACH;
/// How many providers the organization that asks has activated, and how many deactivated.
const POLICIES: usize = 10;
/// The organization that asks.
const ASKS: &str = "4242";

/// A query for both indexes.
struct BothQueries {
    name: &'static str,
    providers: Search<Idp>,
    targets: Search<Target>,
}

/// Builds both indexes, and measures their queries.
pub(crate) fn measure() {
    let (_providers, _, providers, _) = built::<Idp>(ALL, |number| provider(number, owner(number)));
    let (_targets, _, targets, _) = built::<Target>(ALL, |number| target(number, owner(number)));
    println!("\nproviders and targets: {ALL} documents each, of {ORGANIZATIONS} organizations");
    println!("{HEAD}");
    for BothQueries { name, providers: of_providers, targets: of_targets } in of_both() {
        let of_targets = ask(&targets, &format!("targets, {name}"), &of_targets);
        let of_providers = ask(&providers, &format!("providers, {name}"), &of_providers);
        println!("  {:.2} times as much (to reach: 1.5)", of_providers / of_targets);
    }
    ask(&providers, "providers, from an organization, by state", &by_state());
}

fn of_both() -> Vec<BothQueries> {
    let text = || "42".to_owned();
    vec![
        BothQueries { name: "from the instance", providers: of_providers(vec![]), targets: of_targets(vec![]) },
        BothQueries {
            name: "from the instance, by name",
            providers: of_providers(vec![Filter::text(&idp::column::NAME, Method::Contains, text())]),
            targets: of_targets(vec![Filter::text(&target::column::NAME, Method::Contains, text())]),
        },
        BothQueries {
            name: "from an organization",
            providers: of_providers(vec![of_chain()]),
            targets: of_targets(vec![Filter::In(vec![Owner::organization(ASKS)])]),
        },
    ]
}

/// Returns a query by state, which targets do not have.
fn by_state() -> Search<Idp> {
    let ids = |first: usize| (first..first + POLICIES).map(|number| (1_000_000 + number).to_string()).collect();
    let (found, passed) = (ids(0), ids(POLICIES));
    of_providers(vec![of_chain(), Filter::IsUnless { column: &idp::column::IS_ACTIVE, value: true, found, passed }])
}

/// Returns the filter for what an organization sees: its own, and that of the contexts above it.
fn of_chain() -> Filter<Idp> {
    Filter::In(Owner::organization(ASKS).chain("1"))
}

fn of_providers(filters: Vec<Filter<Idp>>) -> Search<Idp> {
    search(&["1", SYSTEM], filters, &idp::column::NAME)
}

fn of_targets(filters: Vec<Filter<Target>>) -> Search<Target> {
    search(&["1"], filters, &target::column::NAME)
}

fn search<R: Resource>(
    instances: &[&str],
    filters: Vec<Filter<R>>,
    by: &'static domain::column::Column<R>,
) -> Search<R> {
    let page = Page { key: SortKey::Column(by), ascending: true, offset: 0, limit: 100 };
    Search { instances: Some(instances.iter().map(ToString::to_string).collect()), filters, page }
}

fn owner(number: usize) -> Owner {
    Owner::organization((number % ORGANIZATIONS).to_string())
}

fn provider(number: usize, owner: Owner) -> Change {
    let client = Client { client_id: number.to_string(), scopes: vec!["openid".into()] };
    let provider = Idp {
        name: format!("Provider {:06}", number.wrapping_mul(2_654_435_761) % 1_000_003),
        options: Options::default(),
        is_active: !number.is_multiple_of(4),
        config: Config::CodehostB(client),
        secret: None,
    };
    document(number, owner, &provider)
}
