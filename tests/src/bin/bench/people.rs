//! The search index of people: the cost of a query in CPU time of its thread.

use domain::{
    context::Owner,
    person::{Contact, Person, Personal},
    resource::user::{Human, User, column},
};
use index::{Filter, Method, Page, Search, SortKey};
use serde_json::json;
use view::table::Change;

use crate::search::{HEAD, ask, built, document};

/// How many organizations they belong to.
const OWNERS: usize = 1000;

/// Builds an index of a number of people, and measures its queries.
pub(crate) fn measure(people: usize) {
    let (_folder, _, snapshot, rate) = built::<User>(people, change);
    println!("\npeople: {people} documents, built at {rate:.0} per CPU-second");
    println!("{HEAD}");
    for (name, search) in queries() {
        ask(&snapshot, name, &search);
    }
}

/// Returns the queries, with the time to reach for a million documents in their names.
fn queries() -> Vec<(&'static str, Search<User>)> {
    let page = Page { key: SortKey::Created, ascending: false, offset: 0, limit: 100 };
    let search = |filters| Search { instances: Some(vec!["1".into()]), filters, page };
    let text = |column, method, text: &str| Filter::Text { column, method, ignores_case: true, text: text.into() };
    let contains = |column, part| text(column, Method::Contains, part);
    let typed = |part| {
        let columns = [&column::USERNAME, &column::NAME, &column::EMAIL];
        Filter::Any(columns.map(|column| contains(column, part)).into())
    };
    let not = |filter| Filter::Not(Box::new(filter));
    vec![
        ("e-mail contains 4, some (to reach: 4)", search(vec![contains(&column::EMAIL, "4242")])),
        ("e-mail contains 7, some (to reach: 4)", search(vec![contains(&column::EMAIL, "ce.4242")])),
        ("e-mail contains, all", search(vec![contains(&column::EMAIL, "@EXAMPLE")])),
        ("e-mail contains, no match", search(vec![contains(&column::EMAIL, "zqzq")])),
        ("user name, name or e-mail contains 4", search(vec![typed("4242")])),
        ("user name, name or e-mail contains 2", search(vec![typed("ce")])),
        (
            "of 10 organizations, and not of a name",
            search(vec![
                Filter::In((0..10).map(|number| Owner::organization(number.to_string())).collect()),
                not(text(&column::FAMILY_NAME, Method::Equals, "Hopper")),
            ]),
        ),
        ("not of a name", search(vec![not(text(&column::FAMILY_NAME, Method::Equals, "Hopper"))])),
    ]
}

fn change(number: usize) -> Change {
    const GIVEN: [&str; 7] = ["Ada", "Grace", "Alan", "Radia", "Katherine", "Edsger", "Barbara"];
    const FAMILY: [&str; 5] = ["Lovelace", "Hopper", "Turing", "Perlman", "Liskov"];
    let mixed = number.wrapping_mul(2_654_435_761) % 1_000_003;
    let (given, family) = (GIVEN[mixed % 7], FAMILY[mixed % 5]);
    let username = format!("{given}.{mixed:06}").to_lowercase();
    let data = json!({ "given_name": given, "family_name": family });
    let person = Person {
        email: Some(Contact { value: format!("{username}@example.com"), is_verified: true }),
        username,
        data: data.as_object().cloned().unwrap_or_default(),
        phone: None,
    };
    let human =
        Human { schema_id: "human".into(), personal: Some(Personal::Opened(Box::new(person))), ..Human::default() };
    let user = User { human: Some(human), is_active: true, ..User::default() };
    document(number, Owner::organization((number % OWNERS).to_string()), &user)
}
