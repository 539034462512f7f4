"""PrimeHub features that Holdfast does not have: apps, deployments, models. Lists are empty, changes are rejected."""

from __future__ import annotations

from typing import Any

from ariadne import MutationType, QueryType

from .errors import NOT_FOUND_CODE, PrimeHubError, build_resource_not_found_error
from .graphql.call import Info
from .graphql.paging import paginate_nodes

query, mutation = QueryType(), MutationType()
BINDABLES = (query, mutation)


@query.field("phAppTemplates")
@query.field("phDeployments")
@query.field("models")
@query.field("modelVersions")
@query.field("mlflowRuns")
@query.field("mlflowArtifact")
def return_empty_list(_: Any, info: Info, **args: Any) -> list[Any]:
    return []


@query.field("phApplicationsConnection")
@query.field("phDeploymentsConnection")
def return_empty_connection(_: Any, info: Info, **args: Any) -> dict[str, Any]:
    return paginate_nodes([], args)


@query.field("model")
@query.field("modelVersion")
def return_none(_: Any, info: Info, where: dict[str, Any]) -> None:
    return None


@query.field("phDeployment")
def refuse_deployment_lookup(_: Any, info: Info, where: dict[str, Any]) -> None:
    raise build_resource_not_found_error("phdeployments", where["id"])


@mutation.field("createPhApplication")
def refuse_app(_: Any, info: Info, **args: Any) -> None:
    raise PrimeHubError("Apps are not supported")


@mutation.field("updatePhApplication")
@mutation.field("startPhApplication")
@mutation.field("stopPhApplication")
@mutation.field("deletePhApplication")
def refuse_app_lookup(_: Any, info: Info, where: dict[str, Any], **args: Any) -> None:
    raise build_resource_not_found_error("phapplications", where["id"])


@mutation.field("createPhDeployment")
def refuse_deployment(_: Any, info: Info, **args: Any) -> None:
    raise PrimeHubError("Deployments are not supported")


@mutation.field("updatePhDeployment")
@mutation.field("deployPhDeployment")
@mutation.field("stopPhDeployment")
@mutation.field("deletePhDeployment")
def refuse_deployment_change(_: Any, info: Info, where: dict[str, Any], **args: Any) -> None:
    raise build_resource_not_found_error("phdeployments", where["id"])


@mutation.field("registerModel")
def refuse_model(_: Any, info: Info, where: dict[str, Any]) -> None:
    raise PrimeHubError("Models are not supported", NOT_FOUND_CODE)
