create schema if not exists platform;

create table if not exists platform.checkpoints (
  projection text collate "C" not null,
  version integer not null,
  shard integer not null,
  epoch bigint not null,
  sequence bigint not null,
  stream_sequence bigint not null,
  digest bytea not null,
  committed_at timestamptz not null,
  primary key (projection, version, shard)
);

create table if not exists platform.generations (
  projection text collate "C" not null,
  version integer not null,
  place text collate "C" not null,
  since timestamptz not null,
  asked_at timestamptz,
  verified_at timestamptz,
  differing bigint,
  examples text[],
  primary key (projection, version, place)
);

create table if not exists platform.scrubs (
  projection text collate "C" not null,
  version integer not null,
  shard integer not null,
  checked_at timestamptz,
  checked bigint not null,
  repaired_at timestamptz,
  repaired bigint not null,
  examples text[] not null,
  primary key (projection, version, shard)
);

create table if not exists platform.heartbeats (
  shard integer primary key,
  stream_sequence bigint not null,
  heard_at timestamptz not null
);

create table if not exists platform.session_heartbeats (
  shard integer primary key,
  stream_sequence bigint not null,
  heard_at timestamptz not null
);

create table if not exists platform.failed_events (
  projection text collate "C" not null,
  version integer not null,
  shard integer not null,
  instance_id text collate "C" not null,
  aggregate_type text collate "C" not null,
  aggregate_id text collate "C" not null,
  id bigint not null,
  sequence bigint not null,
  from_sequence bigint not null,
  from_stream_sequence bigint not null,
  from_digest bytea not null,
  failure_count bigint not null,
  error text not null,
  first_failed timestamptz not null,
  last_failed timestamptz not null,
  primary key (projection, version, shard, instance_id, aggregate_type, aggregate_id)
);

create table if not exists platform.given_up_deliveries (
  shard integer not null,
  place bigint not null,
  id bigint not null,
  instance_id text collate "C" not null,
  aggregate_type text collate "C" not null,
  aggregate_id text collate "C" not null,
  sequence bigint not null,
  target_id text collate "C" not null,
  failure_count bigint not null,
  error text not null,
  last_failed timestamptz not null,
  primary key (shard, place)
);
create index if not exists given_up_deliveries_by_id on platform.given_up_deliveries (id);
create index if not exists given_up_deliveries_by_time on platform.given_up_deliveries (instance_id, last_failed);
create index if not exists given_up_deliveries_in_order on platform.given_up_deliveries (shard, instance_id, sequence, place);
create index if not exists given_up_deliveries_of_all on platform.given_up_deliveries (shard, sequence, place);

create table if not exists platform.first_failures (
  shard integer not null,
  place bigint not null,
  first_failed timestamptz not null,
  primary key (shard, place)
);

do $outer$ begin if to_regprocedure('platform.discarded_1(text, bytea)') is null then
create function platform.discarded_1(named text, payload bytea)
returns table (id bigint, view text, instance_id text, aggregate_type text, aggregate_id text, sequence bigint, target_id text,
  failure_count bigint, error text, first_failed timestamptz, last_failed timestamptz, reason text)
language plpgsql immutable rows 1 as $$
declare
  d jsonb;
begin
  d := convert_from(payload, 'UTF8')::jsonb;
  if (d->>'view' || (d->>'instance_id') || (d->>'aggregate_type') || (d->>'aggregate_id') || (d->>'sequence')) is null then
    return;
  end if;
  return query select named::bigint, d->>'view', d->>'instance_id', d->>'aggregate_type', d->>'aggregate_id', (d->>'sequence')::bigint,
    coalesce(d->>'target_id', ''), coalesce((d->>'tries')::bigint, 0), coalesce(d->>'error', ''),
    to_timestamp((d->>'first_failed')::bigint / 1000000.0), to_timestamp((d->>'last_failed')::bigint / 1000000.0),
    coalesce(d->>'reason', '');
exception when data_exception or program_limit_exceeded then
  return;
end $$;
end if; end $outer$;

create table if not exists platform.retries (
  id bigint primary key,
  decided_in text collate "C" not null,
  actor text not null,
  decided_at timestamptz not null
);

create table if not exists platform.target_attempts (
  instance_id text collate "C" not null,
  target_id text collate "C" not null,
  attempts jsonb not null,
  noted_at timestamptz not null,
  primary key (instance_id, target_id)
);

create schema if not exists history_2;

create table if not exists history_2.events (
  instance_id text collate "C" not null,
  aggregate_type text collate "C" not null,
  aggregate_id text collate "C" not null,
  version bigint not null,
  sequence bigint not null,
  event_id text not null,
  type text not null,
  revision integer not null,
  restores boolean not null,
  owner_type smallint not null,
  owner_id text not null,
  actor text not null,
  committed_at timestamptz not null,
  created_at timestamptz not null,
  payload bytea not null,
  primary key (instance_id, aggregate_type, aggregate_id, version)
);
create index if not exists events_by_sequence on history_2.events (instance_id, sequence);
create index if not exists events_in_order on history_2.events (sequence);

create table if not exists history_2.claims (
  claim bytea primary key,
  instance_id text not null,
  aggregate_type text not null,
  aggregate_id text not null
);

create table if not exists history_2.referrers (
  instance_id text collate "C" not null,
  referred_type text collate "C" not null,
  referred_id text collate "C" not null,
  link text collate "C" not null,
  aggregate_type text collate "C" not null,
  aggregate_id text collate "C" not null,
  primary key (instance_id, referred_type, referred_id, link, aggregate_type, aggregate_id)
);

create table if not exists history_2.answers (
  command_id bytea primary key,
  request_digest bytea not null,
  answer bytea not null,
  instance_id text not null,
  sequence bigint not null,
  committed_at timestamptz not null
);
create index if not exists answers_by_time on history_2.answers (committed_at);

create schema if not exists session_history_1;

create table if not exists session_history_1.events (
  instance_id text collate "C" not null,
  aggregate_type text collate "C" not null,
  aggregate_id text collate "C" not null,
  version bigint not null,
  sequence bigint not null,
  event_id text not null,
  type text not null,
  revision integer not null,
  restores boolean not null,
  owner_type smallint not null,
  owner_id text not null,
  actor text not null,
  committed_at timestamptz not null,
  created_at timestamptz not null,
  payload bytea not null,
  primary key (instance_id, aggregate_type, aggregate_id, version)
);
create index if not exists events_by_sequence on session_history_1.events (instance_id, sequence);
create index if not exists events_in_order on session_history_1.events (sequence);

create index if not exists events_by_time on session_history_1.events (aggregate_type, committed_at);

create table if not exists session_history_1.answers (
  command_id bytea primary key,
  request_digest bytea not null,
  answer bytea not null,
  instance_id text not null,
  sequence bigint not null,
  committed_at timestamptz not null
);
create index if not exists answers_by_time on session_history_1.answers (committed_at);

create schema if not exists access_10;

create table if not exists access_10.instances (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  name text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);

create table if not exists access_10.domains (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  name text collate "C" not null,
  is_primary boolean not null,
  is_verified boolean not null,
  primary key (instance_id, id)
);
create index if not exists domains_by_name on access_10.domains (name);

create table if not exists access_10.organizations (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  name text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);

create table if not exists access_10.projects (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  name text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);

create table if not exists access_10.apps (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  project_id text collate "C" not null,
  name text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);
create index if not exists apps_by_project_id on access_10.apps (instance_id, project_id);

create table if not exists access_10.app_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  holder_id text collate "C" not null,
  project_id text collate "C" not null,
  expires_at bigint not null,
  primary key (instance_id, id)
);

create table if not exists access_10.project_roles (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  project_id text collate "C" not null,
  role_key text collate "C" not null,
  display_name text collate "C" not null,
  listed_under text collate "C" not null,
  primary key (instance_id, id)
);

create table if not exists access_10.project_grants (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  project_id text collate "C" not null,
  organization_id text collate "C" not null,
  role_keys text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);
create index if not exists project_grants_by_organization_id on access_10.project_grants (instance_id, organization_id);

create table if not exists access_10.users (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  username text collate "C" not null,
  name text collate "C" not null,
  is_active boolean not null,
  type text collate "C" not null,
  given_name text collate "C" not null,
  family_name text collate "C" not null,
  nickname text collate "C" not null,
  email text collate "C" not null,
  phone text collate "C" not null,
  email_key text collate "C" not null,
  phone_key text collate "C" not null,
  primary key (instance_id, id)
);
create index if not exists users_by_username on access_10.users (instance_id, username);
create index if not exists users_by_email_key on access_10.users (instance_id, email_key);
create index if not exists users_by_phone_key on access_10.users (instance_id, phone_key);

create table if not exists access_10.user_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  holder_id text collate "C" not null,
  expires_at bigint not null,
  primary key (instance_id, id)
);

create table if not exists access_10.personal_access_tokens (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  user_id text collate "C" not null,
  expires_at bigint not null,
  primary key (instance_id, id)
);

create table if not exists access_10.user_metadata (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  user_id text collate "C" not null,
  metadata_key text collate "C" not null,
  primary key (instance_id, id)
);

create table if not exists access_10.user_grants (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  user_id text collate "C" not null,
  project_id text collate "C" not null,
  project_grant_id text collate "C" not null,
  role_keys text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);
create index if not exists user_grants_by_user_id on access_10.user_grants (instance_id, user_id);

create table if not exists access_10.memberships (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  user_id text collate "C" not null,
  roles text collate "C" not null,
  project_id text collate "C" not null,
  project_grant_id text collate "C" not null,
  primary key (instance_id, id)
);
create index if not exists memberships_by_user_id on access_10.memberships (instance_id, user_id);

create table if not exists access_10.signing_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  algorithm text collate "C" not null,
  primary key (instance_id, id)
);

create table if not exists access_10.data_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  purpose text collate "C" not null,
  primary key (instance_id, id)
);

create table if not exists access_10.feature_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create schema if not exists sessions_3;

create table if not exists sessions_3.sessions (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  user_id text collate "C" not null,
  organization_id text collate "C" not null,
  expires_at bigint not null,
  primary key (instance_id, id)
);
create index if not exists sessions_by_user_id on sessions_3.sessions (instance_id, user_id);
create index if not exists sessions_by_organization_id on sessions_3.sessions (instance_id, organization_id);
create index if not exists sessions_by_expires_at on sessions_3.sessions (expires_at);

create schema if not exists settings_1;

create table if not exists settings_1.language_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.login_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.branding_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.text_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.password_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.lockout_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.help_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.domain_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists settings_1.oidc_settings (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create schema if not exists targets_1;

create table if not exists targets_1.targets (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  name text collate "C" not null,
  target_type text collate "C" not null,
  url text collate "C" not null,
  timeout_ms bigint not null,
  is_async boolean not null,
  interrupt_on_error boolean not null,
  primary key (instance_id, id)
);

create schema if not exists executions_1;

create table if not exists executions_1.executions (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  execution_type text collate "C" not null,
  targets text collate "C" not null,
  includes text collate "C" not null,
  primary key (instance_id, id)
);

create schema if not exists idps_1;

create table if not exists idps_1.idps (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  name text collate "C" not null,
  is_active boolean not null,
  primary key (instance_id, id)
);

create table if not exists idps_1.idp_state_policies (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create schema if not exists ended_7;

create table if not exists ended_7.ended_instances (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_organizations (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_users (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_projects (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_apps (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_user_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_app_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_personal_access_tokens (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_signing_keys (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_project_roles (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_project_grants (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);

create table if not exists ended_7.ended_user_grants (
  instance_id text collate "C" not null,
  id text collate "C" not null,
  owner_type smallint not null,
  owner_id text collate "C" not null,
  sequence bigint not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  state json not null,
  primary key (instance_id, id)
);
