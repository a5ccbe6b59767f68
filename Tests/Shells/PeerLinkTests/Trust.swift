import Model
import NIOCore
import NIOPosix
import TLS
import Testing

@testable import PeerLink

extension PeerTrust {
    /// The trust of the cluster with this key.
    static func test(
        _ key: [UInt8] = [1, 2, 3], wantsNames: Bool = false,
        refused: RefusedCertificates = RefusedCertificates([])
    ) -> PeerTrust {
        guard let key = GreetingKey(gossipKey: key, cluster: Array(repeating: 1, count: 16)) else {
            preconditionFailure("libcrypto has no HKDF")
        }
        return PeerTrust(key: key, wantsNames: { wantsNames }, refused: refused)
    }
}

extension PeerIdentity {
    static func test(
        _ processID: ProcessID, cluster: UInt8 = 1, versions: ClosedRange<UInt8> = Dialect.versions
    ) -> PeerIdentity {
        var identity = PeerIdentity(
            cluster: Array(repeating: cluster, count: 16), processID: processID, name: "node-\(processID)")
        identity.versions = versions
        return identity
    }
}

extension PeerServer {
    /// The server of process 2.
    convenience init(
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, port: Int = 0,
        identity: PeerIdentity = .test(2), trust: PeerTrust = .test(), tls: PeerTLS? = nil, events: PeerEvents
    ) throws {
        try self.init(
            group: group, host: "127.0.0.1", port: port, identity: identity, trust: trust, tls: tls,
            events: events)
    }
}

/// The connections of process 1, with the address of one other process.
struct Connecting: Sendable {
    private let loop = MultiThreadedEventLoopGroup.singleton.next()
    private let peers: NIOLoopBound<PeerConnections>

    init(
        _ identity: PeerIdentity = .test(1), to port: Int, of processID: ProcessID = 2,
        trust: PeerTrust = .test(), tls: PeerTLS? = nil, isEager: Bool = false,
        bound: Backlog.Bound = PeerTiming.backlog, events: PeerEvents, sending payloads: [[UInt8]] = []
    ) throws {
        peers = try loop.submit { [loop] in
            let peers = PeerConnections(
                eventLoop: loop, identity: identity, trust: trust, tls: tls, isEager: isEager, bound: bound,
                events: events)
            peers.setAddresses([processID: .init(host: "127.0.0.1", port: port)])
            for payload in payloads { #expect(peers.send(payload, to: processID)) }
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
    }

    /// Runs `body` on the loop of the connections.
    func run<Result: Sendable>(_ body: @escaping @Sendable (PeerConnections) -> Result) throws -> Result {
        try loop.submit { [peers] in body(peers.value) }.wait()
    }

    func send(_ payload: [UInt8]) throws -> Bool { try run { $0.send(payload, to: 2) } }

    /// Returns when all connections are closed.
    func end() throws { try loop.flatSubmit { [peers] in peers.value.end() }.wait() }
}
