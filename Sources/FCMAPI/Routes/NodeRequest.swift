import HTTPMessages

/// A request that the node answers from what it knows of itself.
public enum NodeRequest: Sendable {
    case health, metrics
    /// `unready`: the status where the node is not ready, 503 or 404. A balancer that sends nobody new to a
    /// node that answers 404 can end the connections of a node that does not answer (HAProxy's
    /// `disable-on-404`). `isReasonTold`: a reason may name files and nodes, and is for nobody outside.
    case ready(unready: Int, isReasonTold: Bool = true)
    case quotas(Project)

    /// `nil` for every path but `/healthz`, `/readyz` and `/metrics`.
    init?(_ target: Target) {
        guard target.count == 1 else { return nil }
        if target.matches(0, "healthz") {
            self = .health
        } else if target.matches(0, "readyz") {
            self = .ready(unready: target.parameter("unready") == "404" ? 404 : 503)
        } else if target.matches(0, "metrics") {
            self = .metrics
        } else {
            return nil
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
        guard let wanted = NodeRequest(Target(request.target)) else { return .respond(APIError.unknownPage) }
        return wanted.action(for: request.method)
    }
}
