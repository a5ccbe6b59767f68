import HTTPMessages
import Model

/// A share of a loop's time.
public struct Share: Hashable, Sendable {
    /// Requests with the same number are in the same share.
    public let number: UInt64

    /// A share's number has its kind from bit 32 on. Below are the 24 bits of a project's number, or 4 bits
    /// of an address.
    static func of(_ project: ProjectNumber) -> Share {
        Share(number: 1 << 32 | UInt64(project.rawValue))
    }
    static let operators = Share(number: 2 << 32)

    /// Clients without a bearer that counts share by 4 bits of their address, so that many addresses do not
    /// become many shares. An unknown address counts as 0.
    static func of(_ client: ClientAddress?) -> Share {
        let mixed = (client?.key ?? 0) &* 0x9E37_79B9_7F4A_7C15
        return Share(number: 3 << 32 | mixed >> 60)
    }
}

extension API {
    /// The share of a request that did not come over the admin socket: the share of the project whose bearer
    /// the request shows. A project that only the path names does not count, because any client may name it,
    /// unless the bearer is an owner's.
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
