import Credentials
import HTTPMessages

/// A request that the node answers from what it knows of itself.
public enum NodeRequest: Sendable {
    case health, metrics
    /// `unready`: the status of a node that is not ready, 503 or 404. A balancer that sends nobody new to a
    /// node that answers 404 can end the connections of a node that does not answer (HAProxy's
    /// `disable-on-404`). `isReasonTold`: a reason may name files and nodes, and is for nobody outside.
    case ready(unready: Int, isReasonTold: Bool = true)
    case quotas(Project)

    /// `nil` for every operation but those of `/healthz`, `/readyz` and `/metrics`.
    init?(_ endpoint: Endpoint, _ target: Target) {
        switch endpoint {
        case .showHealth: self = .health
        case .showReadiness: self = .ready(unready: target.parameter("unready") == "404" ? 404 : 503)
        case .showMetrics: self = .metrics
        default: return nil
        }
    }

    func action(for method: HTTPMethod) -> APIAction {
        guard method == .get || method == .head else {
            return .respond(HTTPResponse(status: 405, fields: [("allow", "GET, HEAD")]))
        }
        return .node(self)
    }
}

extension API {
    /// Routes a request that came over `--listen-metrics`. No other path is there, whatever its sender shows.
    public static func routeProbe(_ request: HTTPRequest) -> APIAction {
        let target = Target(request.target)
        guard let route = Route.tree.find(target, request.method)?.route,
            let wanted = NodeRequest(route.endpoint, target)
        else { return .respond(APIError.unknownPage) }
        return wanted.action(for: request.method)
    }
}
