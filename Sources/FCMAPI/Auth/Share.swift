import HTTPMessages
import Model

/// With whom a request shares a loop's time.
public struct Share: Hashable, Sendable {
    /// Requests with the same number share it.
    public let number: UInt64

    /// A project's number has 24 bits, that of an address four.
    static func of(_ project: ProjectNumber) -> Share {
        Share(number: 1 << 32 | UInt64(project.rawValue))
    }
    static let operators = Share(number: 2 << 32)

    /// Who shows no bearer that is somebody's shares with some of the addresses, so that many addresses do
    /// not become many shares. A client that is not known is among them.
    static func of(_ client: ClientAddress?) -> Share {
        let mixed = (client?.key ?? 0) &* 0x9E37_79B9_7F4A_7C15
        return Share(number: 3 << 32 | mixed >> 60)
    }
}

extension API {
    /// The share of the project whose bearer showed itself in the request that was routed last, if one did:
    /// its refusals for a quota are spread over time. A path may name any project, and is not asked.
    public var payer: Share? {
        if case .project(let number) = authenticator.shown { .of(number) } else { nil }
    }

    /// Whose share of a loop's time a request takes that did not come over the admin socket: that of the
    /// project whose bearer it shows. A project that only the path names may be anybody's wish, except an
    /// owner's.
    public func share(of request: HTTPRequest, now: WallTime) -> Share {
        switch authenticator.principal(request, directory, now: now) {
        case .project(let number): return .of(number)
        case .owner:
            let target = Target(request.target)
            guard target.matches(0, "v1"), target.matches(1, "projects"), let name = target.decoded(2),
                let project = directory.project(String(decoding: name, as: UTF8.self))
            else { return .operators }
            return .of(project.number)
        case .operator: return .operators
        case nil: return .of(settings.clients.client(of: request))
        }
    }
}
