import Model
import NIOCore
import TLS

@testable import PeerLink

extension PeerTrust {
    /// The trust of the cluster with this key. Former builds need no proof, unless a test demands it.
    static func test(
        _ key: [UInt8] = [1, 2, 3], mayOmitProof: Bool = true, wantsNames: Bool = false,
        refused: RefusedCertificates = RefusedCertificates([])
    ) -> PeerTrust {
        guard let key = GreetingKey(gossipKey: key, cluster: Array(repeating: 1, count: 16)) else {
            preconditionFailure("libcrypto has no HKDF")
        }
        return PeerTrust(
            key: key, wantsNames: { wantsNames }, refused: refused, mayOmitProof: { _ in mayOmitProof })
    }
}

extension PeerServer {
    convenience init(
        group: any EventLoopGroup, host: String, port: Int, identity: PeerIdentity, tls: PeerTLS? = nil,
        events: PeerEvents
    ) throws {
        try self.init(
            group: group, host: host, port: port, identity: identity, trust: .test(), tls: tls, events: events
        )
    }
}

extension PeerConnections {
    convenience init(
        eventLoop: any EventLoop, identity: PeerIdentity, tls: PeerTLS? = nil, isEager: Bool = false,
        bound: Backlog.Bound = PeerTiming.backlog, events: PeerEvents
    ) {
        self.init(
            eventLoop: eventLoop, identity: identity, trust: .test(), tls: tls, isEager: isEager,
            bound: bound, events: events)
    }
}
