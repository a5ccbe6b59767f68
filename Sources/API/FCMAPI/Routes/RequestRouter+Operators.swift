import Credentials
import HTTPMessages

// Operators over the network: the same requests as over the admin socket, by a token with a role.

extension RequestRouter {
    /// The least role that may make this request.
    var neededRole: OperatorRole {
        switch request.method {
        case .get, .head: return .read
        default: break
        }
        guard target.matches(0, "admin") else { return .operate }
        // For a path without a row the answer is 404.
        return row?.role ?? .read
    }

    /// Why an operator's token does not count for this request; `nil` if it counts or there is none.
    var operatorRefusal: APIError? {
        guard !isAdmin, case .operator(let role, _) = shown else { return nil }
        guard request.isSecure || request.client?.isLoopback ?? false else {
            return APIError(
                status: .permissionDenied,
                message: "The server takes operators' tokens over TLS only, or from its own machine.")
        }
        let needed = neededRole
        guard role < needed else { return nil }
        return APIError(
            status: .permissionDenied,
            message:
                "This request needs an operator's token with the role \(needed.word), and the token has the"
                + " role \(role.word).")
    }

    /// Routes a request below /admin that came over the network, for callers that may make it.
    func adminOverNetwork() throws(APIError) -> APIAction {
        switch shown {
        case .operator:
            if let refusal = operatorRefusal { throw refusal }
            return try admin()
        case .owner:
            guard target.matches(1, "cluster") else { throw .notFoundHere }
            return try admin()
        case .project(let number):
            guard isOfBackends,
                api.directory.project(String(decoding: try segment(2), as: UTF8.self))?.number == number
            else { throw RequestRouter.operatorWanted }
            return try admin()
        case nil:
            // Callers without a token must not learn which paths exist.
            guard request.fields["authorization"] != nil else { throw .notFoundHere }
            throw RequestRouter.operatorWanted
        }
    }

    /// Whether this is a request of the command line below /admin for something that a backend may do in its
    /// project anyway.
    private var isOfBackends: Bool {
        if case .operatorsAndBackends = row?.access { true } else { false }
    }

    static let operatorWanted = APIError(
        status: .unauthenticated,
        message: "This request needs an operator's token: `tidecast key create --kind operator` makes one.")
}
