//! The roles that memberships give. Their permissions are derived in [`crate::rights`].

use crate::context::{OwnerType, PartKind};

/// A named set of permissions that a membership gives in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// The name, for example `IAM_OWNER`.
    pub name: &'static str,
    /// The level of the contexts in which it may be held.
    pub level: OwnerType,
    /// The kind of parts of these in which it is held; `None` if it is held in the entire context.
    pub part: Option<PartKind>,
    pub(crate) gives: Gives,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    /// All permissions at its level.
    Everything,
    /// All read permissions at its level.
    Reads,
    /// These permissions.
    Only(&'static [&'static [&'static str]]),
}

impl Role {
    const fn new(name: &'static str, level: OwnerType, gives: Gives) -> Self {
        Self { name, level, part: None, gives }
    }

    const fn of_part(name: &'static str, part: PartKind, gives: &'static [&'static [&'static str]]) -> Self {
        Self { name, level: OwnerType::Organization, part: Some(part), gives: Gives::Only(gives) }
    }

    /// Whether it can be held in contexts of this level, or in parts of these.
    pub fn fits(&self, level: OwnerType, part: Option<PartKind>) -> bool {
        self.level == level && self.part == part
    }
}

/// The permissions on projects and what belongs to them.
const ON_PROJECTS: &[&str] = &[
    "project.app.delete",
    "project.app.read",
    "project.app.write",
    "project.delete",
    "project.grant.delete",
    "project.grant.read",
    "project.grant.write",
    "project.read",
    "project.role.delete",
    "project.role.read",
    "project.role.write",
    "project.write",
    "user.grant.delete",
    "user.grant.read",
    "user.grant.write",
];

/// The permission to create projects in an organization.
pub const CREATE_PROJECTS: &str = "project.create";

/// The read permissions on projects.
const READS_OF_PROJECTS: &[&str] =
    &["project.app.read", "project.grant.read", "project.read", "project.role.read", "user.grant.read"];

/// The permissions on the roles of others.
const ON_MEMBERS: &[&str] = &["membership.delete", "membership.read", "membership.write"];

/// Does everything across instances, as an operator of the platform.
pub const SYSTEM_OWNER: Role = Role::new("SYSTEM_OWNER", OwnerType::System, Gives::Everything);

/// Reads everything across instances, as an operator of the platform.
pub const SYSTEM_OWNER_VIEWER: Role = Role::new("SYSTEM_OWNER_VIEWER", OwnerType::System, Gives::Reads);

/// All rights on an instance and everything below it.
pub const IAM_OWNER: Role = Role::new("IAM_OWNER", OwnerType::Instance, Gives::Everything);

/// All reads on an instance and everything below it.
pub const IAM_OWNER_VIEWER: Role = Role::new("IAM_OWNER_VIEWER", OwnerType::Instance, Gives::Reads);

/// All rights on the organizations of an instance, except those that would give more rights.
pub const IAM_ORG_MANAGER: Role = Role::new(
    "IAM_ORG_MANAGER",
    OwnerType::Instance,
    Gives::Only(&[
        ON_PROJECTS,
        &[CREATE_PROJECTS],
        &[
            "domain.read",
            "membership.read",
            "org.create",
            "org.delete",
            "org.read",
            "org.write",
            "user.credential.write",
            "user.delete",
            "user.read",
            "user.write",
        ],
    ]),
);

/// The permissions of managers of users, at any level.
const OF_USER_MANAGERS: Gives = Gives::Only(&[&[
    "membership.read",
    "org.read",
    "project.grant.read",
    "project.read",
    "project.role.read",
    "user.credential.write",
    "user.delete",
    "user.grant.delete",
    "user.grant.read",
    "user.grant.write",
    "user.read",
    "user.write",
]]);

/// All rights on the users of an instance.
pub const IAM_USER_MANAGER: Role = Role::new("IAM_USER_MANAGER", OwnerType::Instance, OF_USER_MANAGERS);

/// The permission to act as somebody else.
pub const IMPERSONATE: &str = "impersonation";
/// The permission that is needed as well if that user has roles, in each place where they apply.
pub const IMPERSONATE_ADMINS: &str = "admin.impersonation";

/// The permissions of roles that act as anybody.
const OF_ADMIN_IMPERSONATORS: Gives = Gives::Only(&[&[IMPERSONATE_ADMINS, IMPERSONATE]]);
/// The permissions of roles that act as users without roles.
const OF_END_USER_IMPERSONATORS: Gives = Gives::Only(&[&[IMPERSONATE]]);

/// Acts as any user of an instance.
pub const IAM_ADMIN_IMPERSONATOR: Role =
    Role::new("IAM_ADMIN_IMPERSONATOR", OwnerType::Instance, OF_ADMIN_IMPERSONATORS);

/// Acts as the users of an instance that have no roles.
pub const IAM_END_USER_IMPERSONATOR: Role =
    Role::new("IAM_END_USER_IMPERSONATOR", OwnerType::Instance, OF_END_USER_IMPERSONATORS);

/// The role of programs that log people in.
pub const IAM_LOGIN_CLIENT: Role = Role::new(
    "IAM_LOGIN_CLIENT",
    OwnerType::Instance,
    Gives::Only(&[&[
        "domain.read",
        "idp.read",
        "membership.read",
        "org.read",
        "policy.read",
        "project.app.read",
        "project.grant.read",
        "project.read",
        "project.role.read",
        "session.delete",
        "session.link",
        "session.read",
        "session.write",
        "user.credential.write",
        "user.grant.read",
        "user.grant.write",
        "user.read",
        "user.write",
    ]]),
);

/// All rights on an organization.
pub const ORG_OWNER: Role = Role::new("ORG_OWNER", OwnerType::Organization, Gives::Everything);

/// All reads on an organization.
pub const ORG_OWNER_VIEWER: Role = Role::new("ORG_OWNER_VIEWER", OwnerType::Organization, Gives::Reads);

/// All rights on the users of an organization.
pub const ORG_USER_MANAGER: Role = Role::new("ORG_USER_MANAGER", OwnerType::Organization, OF_USER_MANAGERS);

/// All rights on the settings of an organization.
pub const ORG_SETTINGS_MANAGER: Role = Role::new(
    "ORG_SETTINGS_MANAGER",
    OwnerType::Organization,
    Gives::Only(&[&["idp.delete", "idp.read", "idp.write", "org.read", "policy.read", "policy.write"]]),
);

/// Acts as any user of an organization whose roles apply there.
pub const ORG_ADMIN_IMPERSONATOR: Role =
    Role::new("ORG_ADMIN_IMPERSONATOR", OwnerType::Organization, OF_ADMIN_IMPERSONATORS);

/// Acts as the users of an organization that have no roles.
pub const ORG_END_USER_IMPERSONATOR: Role =
    Role::new("ORG_END_USER_IMPERSONATOR", OwnerType::Organization, OF_END_USER_IMPERSONATORS);

/// The permissions of editors to see to whom they can give what in an organization.
const SEEN_BY_EDITORS: &[&str] = &[
    "membership.read",
    "org.read",
    "policy.read",
    "project.app.read",
    "project.grant.read",
    "project.read",
    "project.role.read",
    "user.grant.read",
    "user.read",
];

/// Gives the roles of projects to the users of an organization.
pub const ORG_USER_PERMISSION_EDITOR: Role = Role::new(
    "ORG_USER_PERMISSION_EDITOR",
    OwnerType::Organization,
    Gives::Only(&[SEEN_BY_EDITORS, &["user.grant.delete", "user.grant.write"]]),
);

/// Grants the projects of an organization to other organizations.
pub const ORG_PROJECT_PERMISSION_EDITOR: Role = Role::new(
    "ORG_PROJECT_PERMISSION_EDITOR",
    OwnerType::Organization,
    Gives::Only(&[SEEN_BY_EDITORS, &["project.grant.delete", "project.grant.write"]]),
);

/// Creates projects in an organization, and gets all rights on each of these.
pub const ORG_PROJECT_CREATOR: Role =
    Role::new("ORG_PROJECT_CREATOR", OwnerType::Organization, Gives::Only(&[&[CREATE_PROJECTS]]));

/// The self-service of users in an organization.
pub const ORG_USER_SELF_MANAGER: Role =
    Role::new("ORG_USER_SELF_MANAGER", OwnerType::Organization, Gives::Only(&[&["policy.read", "user.self.delete"]]));

/// The self-service of users on an instance.
pub const SELF_MANAGEMENT_GLOBAL: Role = Role::new(
    "SELF_MANAGEMENT_GLOBAL",
    OwnerType::Instance,
    Gives::Only(&[&["org.create", "policy.read", "user.self.delete"]]),
);

/// All rights on a project.
pub const PROJECT_OWNER: Role = Role::of_part("PROJECT_OWNER", PartKind::Project, &[ON_PROJECTS, ON_MEMBERS]);

/// All reads on a project.
pub const PROJECT_OWNER_VIEWER: Role =
    Role::of_part("PROJECT_OWNER_VIEWER", PartKind::Project, &[READS_OF_PROJECTS, &["membership.read"]]);

/// All rights on the projects of an organization, except those that would give more rights.
pub const PROJECT_OWNER_GLOBAL: Role =
    Role::new("PROJECT_OWNER_GLOBAL", OwnerType::Organization, Gives::Only(&[ON_PROJECTS, &[CREATE_PROJECTS]]));

/// All reads on the projects of an organization.
pub const PROJECT_OWNER_VIEWER_GLOBAL: Role =
    Role::new("PROJECT_OWNER_VIEWER_GLOBAL", OwnerType::Organization, Gives::Only(&[READS_OF_PROJECTS]));

/// All rights on a project that was granted.
pub const PROJECT_GRANT_OWNER: Role = Role::of_part(
    "PROJECT_GRANT_OWNER",
    PartKind::ProjectGrant,
    &[ON_MEMBERS, &["project.grant.read", "user.grant.delete", "user.grant.read", "user.grant.write"]],
);

/// All reads on a project that was granted.
pub const PROJECT_GRANT_OWNER_VIEWER: Role = Role::of_part(
    "PROJECT_GRANT_OWNER_VIEWER",
    PartKind::ProjectGrant,
    &[&["membership.read", "project.grant.read", "user.grant.read"]],
);

/// All roles.
pub const ROLES: &[Role] = &[
    SYSTEM_OWNER,
    SYSTEM_OWNER_VIEWER,
    IAM_OWNER,
    IAM_OWNER_VIEWER,
    IAM_ORG_MANAGER,
    IAM_USER_MANAGER,
    IAM_ADMIN_IMPERSONATOR,
    IAM_END_USER_IMPERSONATOR,
    IAM_LOGIN_CLIENT,
    SELF_MANAGEMENT_GLOBAL,
    ORG_OWNER,
    ORG_OWNER_VIEWER,
    ORG_USER_MANAGER,
    ORG_SETTINGS_MANAGER,
    ORG_ADMIN_IMPERSONATOR,
    ORG_END_USER_IMPERSONATOR,
    ORG_USER_PERMISSION_EDITOR,
    ORG_PROJECT_PERMISSION_EDITOR,
    ORG_PROJECT_CREATOR,
    ORG_USER_SELF_MANAGER,
    PROJECT_OWNER,
    PROJECT_OWNER_VIEWER,
    PROJECT_OWNER_GLOBAL,
    PROJECT_OWNER_VIEWER_GLOBAL,
    PROJECT_GRANT_OWNER,
    PROJECT_GRANT_OWNER_VIEWER,
];

/// Returns the role with this name.
pub fn role(name: &str) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.name == name)
}
