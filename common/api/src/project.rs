//! Converts projects between the API and the core.

use domain::resource::project::{Policies, PrivateLabeling, Project, ProjectPatch, column};
use index::{Filter, SortKey};
use proto::project::{
    self, CreateProjectRequest, GetProject, GetProjectRequest, PatchProjectRequest, PrivateLabelingSetting,
    ProjectFieldName, SearchProjectsRequest, project_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{in_state, named, state},
    standard::Readable,
};

impl Readable for Project {
    type Get = GetProjectRequest;
    type Search = SearchProjectsRequest;

    fn key(column: ProjectFieldName) -> SortKey<Self> {
        match column {
            ProjectFieldName::Unspecified | ProjectFieldName::CreationDate => SortKey::Created,
            ProjectFieldName::Id => SortKey::Id,
            ProjectFieldName::ChangeDate => SortKey::Changed,
            ProjectFieldName::Name => SortKey::Column(&column::NAME),
            ProjectFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetProject {
        let Self { name, policies, is_active } = found.state.clone();
        let Policies { role_assertion, authorization_required, access_required, private_labeling } = policies;
        let private_labeling_setting = match private_labeling {
            PrivateLabeling::Unspecified => PrivateLabelingSetting::Unspecified,
            PrivateLabeling::OfProject => PrivateLabelingSetting::EnforceProjectResourceOwnerPolicy,
            PrivateLabeling::OfUser => PrivateLabelingSetting::AllowLoginUserResourceOwnerPolicy,
        };
        GetProject {
            details: Some(details::of(found)),
            project: Some(project::Project {
                name,
                project_role_assertion: role_assertion,
                authorization_required,
                project_access_required: access_required,
                private_labeling_setting: private_labeling_setting.into(),
            }),
            state: state(is_active).into(),
        }
    }
}

fn private_labeling(wanted: PrivateLabelingSetting) -> PrivateLabeling {
    match wanted {
        PrivateLabelingSetting::Unspecified => PrivateLabeling::Unspecified,
        PrivateLabelingSetting::EnforceProjectResourceOwnerPolicy => PrivateLabeling::OfProject,
        PrivateLabelingSetting::AllowLoginUserResourceOwnerPolicy => PrivateLabeling::OfUser,
    }
}

/// Creates a project from a request.
pub fn new(request: &CreateProjectRequest) -> Project {
    let wanted = request.project.clone().unwrap_or_default();
    let policies = Policies {
        role_assertion: wanted.project_role_assertion,
        authorization_required: wanted.authorization_required,
        access_required: wanted.project_access_required,
        private_labeling: private_labeling(wanted.private_labeling_setting()),
    };
    Project { policies, ..Project::new(wanted.name) }
}

/// Converts the changes of a request.
pub fn patch(request: &PatchProjectRequest) -> ProjectPatch {
    let wanted = request.project.clone().unwrap_or_default();
    ProjectPatch {
        private_labeling: wanted.private_labeling_setting.map(|_| private_labeling(wanted.private_labeling_setting())),
        name: wanted.name,
        role_assertion: wanted.project_role_assertion,
        authorization_required: wanted.authorization_required,
        access_required: wanted.project_access_required,
    }
}
