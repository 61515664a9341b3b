//! The index against a model that knows neither events nor chains.

use domain::{
    aggregate::Aggregate,
    setting::{
        features::{FLAGS, Features, FeaturesChange},
        languages::{Languages, LanguagesChange, SUPPORTED},
    },
    settings::{Command, Set},
};
use eventlog::{
    log::Follower,
    record::{CommitRecord, Event as Written, Record, encode, owner_type},
};
use proptest::prelude::*;

use super::*;

/// What the model has of a context: its flags, its default language and its languages.
#[derive(Debug, Clone, Default)]
struct Model {
    flags: [Option<bool>; 3],
    default: Option<String>,
    restricted: Option<Vec<String>>,
}

/// Contexts, each with the instance for which it is read.
type Contexts = Vec<(String, Owner)>;

/// The contexts: the system, and instances that have so many organizations.
fn contexts(organizations: &[usize]) -> Contexts {
    let mut all = vec![("1".to_owned(), Owner::system())];
    for (number, count) in (1..).zip(organizations) {
        let instance = number.to_string();
        all.push((instance.clone(), Owner::instance(&instance)));
        all.extend((0..*count).map(|at| (instance.clone(), Owner::organization(format!("{instance}{at}")))));
    }
    all
}

/// The place of the context above another one.
fn parent(contexts: &[(String, Owner)], at: usize) -> Option<usize> {
    let (instance, context) = &contexts[at];
    match context.kind {
        OwnerType::System => None,
        OwnerType::Instance => Some(0),
        OwnerType::Organization => contexts.iter().position(|(_, context)| *context == Owner::instance(instance)),
    }
}

/// What is done to a context.
#[derive(Debug, Clone)]
enum Step {
    Flag(usize, Option<bool>),
    Languages(Option<Option<usize>>, Option<Option<Vec<usize>>>),
    Remove,
}

/// One to three instances of up to four organizations each, and what is done to them and the system.
fn scenes() -> impl Strategy<Value = (Contexts, Vec<(usize, Step)>)> {
    proptest::collection::vec(0..5_usize, 1..4).prop_flat_map(|organizations| {
        let contexts = contexts(&organizations);
        let steps = steps(contexts.len());
        (Just(contexts), steps)
    })
}

fn steps(contexts: usize) -> impl Strategy<Value = Vec<(usize, Step)>> {
    let languages = proptest::sample::subsequence((0..SUPPORTED.len()).collect::<Vec<_>>(), 1..4);
    let step = prop_oneof![
        6 => (0..3_usize, any::<Option<bool>>()).prop_map(|(flag, to)| Step::Flag(flag, to)),
        6 => (proptest::option::of(proptest::option::of(0..SUPPORTED.len())), proptest::option::of(proptest::option::of(languages)))
            .prop_map(|(default, restricted)| Step::Languages(default, restricted)),
        1 => Just(Step::Remove),
    ];
    proptest::collection::vec((0..contexts, step), 1..60)
}

fn set<T>(value: Option<T>) -> Set<T> {
    value.map_or(Set::Reset, Set::To)
}

/// A log of one record for each command that changes something, and the index that follows it.
struct Scene {
    contexts: Contexts,
    index: SettingsIndex,
    records: Vec<Record>,
    events: u64,
}

impl Scene {
    fn new(contexts: Contexts) -> Self {
        Self { contexts, index: SettingsIndex::default(), records: vec![], events: 0 }
    }

    /// A model in which nothing is set.
    fn model(&self) -> Vec<Model> {
        vec![Model::default(); self.contexts.len()]
    }

    /// Decides a command as the writer does, and commits its events. Returns whether it was accepted.
    fn command<P: Properties>(&mut self, at: usize, command: impl Fn(Chain<P>) -> Command<P>) -> bool {
        let (instance_id, context) = &self.contexts[at];
        let effective = self.index.effective::<P>(instance_id, context);
        let state = effective.chain.own.as_ref().map(|own| (**own).clone().into());
        let Ok(events) = Settings::<P>::decide(&state, command(effective.chain)) else { return false };
        let key = key::<P>(instance_id, context, "");
        for event in events {
            let (r#type, payload) = encode::<Settings<P>>(&event);
            let written = Written {
                instance_id: key.instance_id.clone(),
                owner_type: owner_type(context.kind),
                owner_id: context.id.clone(),
                aggregate_type: key.aggregate_type.clone(),
                aggregate_id: key.id.clone(),
                r#type,
                revision: 1,
                payload,
                ..Written::default()
            };
            self.events += 1;
            let commit = CommitRecord { first_sequence: self.events, events: vec![written], ..CommitRecord::default() };
            let record = Record::new(self.events, [0; 32], commit);
            Follower::apply(&mut self.index, &record);
            self.records.push(record);
        }
        true
    }

    fn step(&mut self, model: &mut [Model], at: usize, step: &Step) {
        let word = |language: usize| SUPPORTED[language].to_owned();
        match step {
            Step::Flag(flag, to) => {
                let mut change = FeaturesChange::default();
                let flags = [
                    &mut change.multitenancy_resources_api,
                    &mut change.multitenancy_settings,
                    &mut change.oidc_token_exchange,
                ];
                *flags.into_iter().nth(*flag).expect("there are three") = Some(set(*to));
                let asked = |chain: Chain<Features>| Command::Change { change: change.clone(), above: chain.above };
                assert!(self.command(at, asked), "flags have no rules");
                model[at].flags[*flag] = *to;
            }
            Step::Languages(default, restricted) => {
                let default = default.map(|default| default.map(word));
                let restricted = restricted.clone().map(|list| list.map(|list| list.into_iter().map(word).collect()));
                let change = LanguagesChange {
                    default_language: default.clone().map(set),
                    restricted_languages: restricted.clone().map(set::<Vec<String>>),
                };
                let asked = |chain: Chain<Languages>| Command::Change { change: change.clone(), above: chain.above };
                if self.command(at, asked) {
                    let model = &mut model[at];
                    model.default = default.unwrap_or_else(|| model.default.clone());
                    model.restricted = restricted.unwrap_or_else(|| model.restricted.clone());
                }
            }
            Step::Remove => {
                self.command::<Features>(at, |_| Command::Remove);
                self.command::<Languages>(at, |_| Command::Remove);
                model[at] = Model::default();
            }
        }
    }
}

/// What the model has of a property: the nearest acceptable value, and its context, if that is another one.
fn nearest<T: Clone>(
    scene: &Scene,
    model: &[Model],
    at: usize,
    property: impl Fn(&Model) -> Option<T>,
    will_do: impl Fn(&T) -> bool,
) -> Option<(T, Option<Owner>)> {
    let mut place = Some(at);
    while let Some(here) = place {
        if let Some(value) = property(&model[here]).filter(&will_do) {
            return Some((value, (here != at).then(|| scene.contexts[here].1.clone())));
        }
        place = parent(&scene.contexts, here);
    }
    None
}

fn assert_same(scene: &Scene, model: &[Model]) {
    let index = &scene.index;
    for (at, (instance_id, context)) in scene.contexts.iter().enumerate() {
        let system = (at != 0).then(Owner::system);
        let flags = index.effective::<Features>(instance_id, context).chain;
        let found = [
            flags.resolve(|flags| flags.multitenancy_resources_api.as_ref()),
            flags.resolve(|flags| flags.multitenancy_settings.as_ref()),
            flags.resolve(|flags| flags.oidc_token_exchange.as_ref()),
        ];
        for (flag, found) in found.into_iter().enumerate() {
            let wanted =
                nearest(scene, model, at, |model| model.flags[flag], |_| true).unwrap_or((false, system.clone()));
            assert_eq!((*found.value, found.owner.cloned()), wanted, "{} in {context:?}", FLAGS[flag]);
            assert_eq!(flags.has(FLAGS[flag]), wanted.0);
        }
        let languages = index.effective::<Languages>(instance_id, context).chain;
        let all = || SUPPORTED.map(str::to_owned).to_vec();
        let restricted =
            nearest(scene, model, at, |model| model.restricted.clone(), |_| true).unwrap_or((all(), system.clone()));
        let found = languages.restricted_languages();
        assert_eq!((found.value.clone(), found.owner.cloned()), restricted, "the languages of {context:?}");
        let is_there = |language: &String| restricted.0.contains(language);
        let own = nearest(scene, model, at, |model| model.default.clone(), is_there);
        let everywhere = Some(("en".to_owned(), system)).filter(|(language, _)| is_there(language));
        let default = own.or(everywhere).unwrap_or_else(|| (restricted.0[0].clone(), restricted.1.clone()));
        let found = languages.default_language();
        assert_eq!((found.value.clone(), found.owner.cloned()), default, "the default language of {context:?}");
    }
}

proptest! {
    #[test]
    fn what_holds_is_what_a_naive_model_says(scene in scenes(), again in 0..60_usize) {
        let (contexts, steps) = scene;
        let mut scene = Scene::new(contexts);
        let mut model = scene.model();
        for (at, step) in &steps {
            scene.step(&mut model, *at, step);
            assert_same(&scene, &model);
        }
        // Events that the tables had already are applied once more.
        let again = again.min(scene.records.len());
        for record in &scene.records[again..] {
            Follower::apply(&mut scene.index, record);
        }
        assert_same(&scene, &model);
        prop_assert_eq!(scene.index.effective::<Features>("1", &Owner::system()).processed, scene.events);
    }
}

#[test]
fn a_context_has_the_sequence_of_its_own_last_change() {
    let mut scene = Scene::new(contexts(&[3, 3]));
    let mut model = scene.model();
    scene.step(&mut model, 0, &Step::Flag(0, Some(true)));
    scene.step(&mut model, 1, &Step::Flag(0, Some(false)));
    let of = |at: usize| {
        let (instance_id, context) = &scene.contexts[at];
        let found = scene.index.effective::<Features>(instance_id, context);
        (found.sequence, found.processed)
    };
    assert_eq!([of(0), of(1), of(2), of(5)], [(1, 2), (2, 2), (0, 2), (0, 2)]);
}

#[test]
fn a_removed_context_leaves_nothing() {
    let mut scene = Scene::new(contexts(&[3, 3]));
    let mut model = scene.model();
    for step in [Step::Flag(0, Some(true)), Step::Languages(None, Some(Some(vec![0]))), Step::Remove] {
        scene.step(&mut model, 2, &step);
    }
    assert_eq!(scene.events, 4);
    let contexts = scene.index.contexts.read().expect("nobody panicked");
    assert!(contexts.by_instance.is_empty());
}
