import HTTPMessages

/// A request that the node answers from what it knows of itself.
public enum NodeRequest: Sendable {
    case health, ready, metrics
    case quotas(Project)

    /// `nil` for every path but `/healthz`, `/readyz` and `/metrics`.
    init?(_ target: Target) {
        guard target.count == 1 else { return nil }
        if target.matches(0, "healthz") {
            self = .health
        } else if target.matches(0, "readyz") {
            self = .ready
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
