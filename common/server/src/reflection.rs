//! gRPC server reflection, v1 and v1alpha.

use axum::Router;
use prost_reflect::{DescriptorPool, DynamicMessage, Value, prost::Message};
use proto::operation::Facts;
use tonic_reflection::server::Builder;
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt};

use crate::stream::{bound_request, bound_response};

/// Serves these descriptors ([`restricted`]).
#[expect(clippy::missing_panics_doc, reason = "the tests build the services, and the input is fixed")]
pub fn reflection(descriptors: &[u8]) -> Router {
    let configured = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let valid = "the descriptors come from the build";
    let v1 = configured().build_v1().expect(valid);
    let v1alpha = configured().build_v1alpha().expect(valid);
    let v1 = ServiceExt::<http::Request<_>>::map_response(v1.map_request(bound_request), bound_response);
    let v1alpha = ServiceExt::<http::Request<_>>::map_response(v1alpha.map_request(bound_request), bound_response);
    Router::new()
        .route_service("/grpc.reflection.v1.ServerReflection/{rpc}", GrpcWebLayer::new().layer(v1))
        .route_service("/grpc.reflection.v1alpha.ServerReflection/{rpc}", GrpcWebLayer::new().layer(v1alpha))
}

/// The descriptors of the mounted operations, as an encoded set: without comments and without other rpcs. The files
/// that they import are complete. They are changed as dynamic messages, because the generated types for descriptors
/// lose the options.
pub fn restricted(mounted: &[&Facts]) -> Vec<u8> {
    let mut files = descriptors();
    for file in list(&mut files, "file").iter_mut().filter_map(Value::as_message_mut) {
        file.clear_field_by_name("source_code_info");
        let package = text(file, "package");
        list(file, "service").retain_mut(|service| {
            let Some(service) = service.as_message_mut() else { return false };
            let name = format!("{package}.{}", text(service, "name"));
            let methods = list(service, "method");
            methods.retain(|method| {
                let method = method.as_message().map(|method| text(method, "name")).unwrap_or_default();
                mounted.iter().any(|facts| facts.service == name && facts.method == method)
            });
            !methods.is_empty()
        });
    }
    files.encode_to_vec()
}

fn descriptors() -> DynamicMessage {
    let valid = "the descriptors come from the build, which has read them";
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect(valid);
    let kind = pool.get_message_by_name("google.protobuf.FileDescriptorSet").expect(valid);
    DynamicMessage::decode(kind, proto::DESCRIPTORS).expect(valid)
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn list<'a>(message: &'a mut DynamicMessage, field: &str) -> &'a mut Vec<Value> {
    let list = message.get_field_by_name_mut(field).and_then(Value::as_list_mut);
    list.expect("only lists of descriptor.proto are asked for")
}

#[cfg(test)]
mod tests {
    use proto::operation::{CREATE_TARGET, GET_TARGET};

    use super::*;

    #[test]
    fn only_what_is_mounted_is_described() {
        let pool = DescriptorPool::decode(restricted(&[&GET_TARGET.facts, &CREATE_TARGET.facts]).as_slice()).unwrap();
        let services: Vec<_> = pool.services().collect();
        assert_eq!(services.len(), 1);
        assert_eq!(services[0].full_name(), GET_TARGET.facts.service);
        let methods: Vec<_> = services[0].methods().map(|method| method.name().to_owned()).collect();
        assert_eq!(methods, ["CreateTarget", "GetTarget"]);
    }

    #[test]
    fn options_and_imports_are_kept() {
        let pool = DescriptorPool::decode(restricted(&[&GET_TARGET.facts]).as_slice()).unwrap();
        assert!(pool.get_file_by_name("google/api/annotations.proto").is_some());
        let method = pool.services().next().and_then(|service| service.methods().next()).unwrap();
        let http = pool.get_extension_by_name("google.api.http").unwrap();
        assert!(method.options().has_extension(&http));
    }
}
