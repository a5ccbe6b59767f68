import Foundation
import Model
import NIOCore
import NIOPosix
import Synchronization
import TLS
import Testing

@testable import PeerLink

/// Nodes with certificates of their own. The name in the greeting must be the certificate's name, or the node
/// ends the connection.
@Suite("Certificates of nodes") struct CertificateTests {
    private let group = MultiThreadedEventLoopGroup.singleton
    private let folder: String
    private let authority: CertificateAuthority

    init() throws {
        folder = FileManager.default.temporaryDirectory.path + "/tidecast-peers-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        authority = try CertificateAuthority(days: 2)
        try write(try authority.certificatePEM(), "ca.pem")
    }

    private func write(_ text: String, _ file: String) throws {
        try text.write(toFile: "\(folder)/\(file)", atomically: false, encoding: .utf8)
    }

    /// The TLS of a node whose certificate names `named`; `nil` for a certificate that all nodes share.
    private func tls(_ named: String?) throws -> PeerTLS {
        let file = named ?? "peer"
        let made = try authority.sign(.peer(node: named, hosts: []), days: 2)
        try write(made.certificatePEM, "\(file).pem")
        try write(made.keyPEM, "\(file).key")
        return try PeerTLS(
            PeerFiles(
                certificateFile: "\(folder)/\(file).pem", keyFile: "\(folder)/\(file).key",
                authorityFile: "\(folder)/ca.pem"), node: named ?? "any")
    }

    struct Case: Sendable {
        var (listening, connecting): (String?, String?)
        var wantsNames = true
        /// The refusals of the listening and of the connecting side.
        var refusals: (String?, String?) = (nil, nil)
    }

    static let cases = [
        Case(listening: "node-2", connecting: "node-1"),
        Case(listening: nil, connecting: nil, wantsNames: false),
        Case(listening: "node-2", connecting: nil, wantsNames: false),
        Case(
            listening: "node-2", connecting: "node-3",
            refusals: ("node node-1 shows the certificate of node-3", nil)),
        Case(
            listening: "node-3", connecting: "node-1",
            refusals: (nil, "node node-2 shows the certificate of node-3")),
        Case(
            listening: "node-2", connecting: nil,
            refusals: ("node node-1 shows a certificate that names no node", nil)),
        Case(
            listening: nil, connecting: "node-3", wantsNames: false,
            refusals: ("node node-1 shows the certificate of node-3", nil)),
    ]

    @Test("name the node of the greeting, or both sides hear why the connection ends", arguments: cases)
    func greetingNames(_ one: Case) throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (there, here) = (Heard(), Heard())
        let reports = Mutex<[String]>([])
        var events = here.events
        events.link = { _, _, report in
            if case .failed(let reason) = report { reports.withLock { $0.append(reason) } }
        }
        func identity(_ processID: ProcessID) -> PeerIdentity {
            PeerIdentity(
                cluster: Array(repeating: 1, count: 16), processID: processID, name: "node-\(processID)")
        }
        let trust = PeerTrust.test(mayOmitProof: false, wantsNames: one.wantsNames)
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), trust: trust,
            tls: try tls(one.listening), events: there.events)
        let (loop, port) = (group.next(), server.port)
        let (client, told, shown) = (identity(1), events, try tls(one.connecting))
        let peers = try loop.submit {
            let peers = PeerConnections(
                eventLoop: loop, identity: client, trust: trust, tls: shown, events: told)
            peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
            _ = peers.send([1, 2, 3], to: 2)
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
        if let words = one.refusals.0 {
            there.wait { !there.refusals.isEmpty }
            #expect(there.refusals.first?.contains(words) == true)
            // The other side's operator reads the refusal too.
            there.wait { reports.withLock { $0.contains { $0.contains(words) } } }
            #expect(reports.withLock { $0.contains { $0.contains("it refuses this node: \(words)") } })
        }
        if let words = one.refusals.1 {
            here.wait { !here.refusals.isEmpty }
            #expect(here.refusals.first?.contains(words) == true)
            there.wait { !reports.withLock { $0.isEmpty } }
            #expect(reports.withLock { $0.first }?.contains(words) == true)
        }
        if one.refusals == (nil, nil) {
            there.wait { !there.payloads.isEmpty }
            #expect(there.refusals.isEmpty && here.refusals.isEmpty)
        }
        #expect(there.payloads == (one.refusals == (nil, nil) ? [[1, 2, 3]] : []))
        try loop.submit { peers.value.close() }.wait()
        server.close()
    }
}
