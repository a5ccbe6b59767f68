import Model
import Synchronization
import Testing

@testable import PeerLink

/// Nodes with certificates of their own. The name in the greeting must be the certificate's name, or the node
/// ends the connection.
@Suite("Certificates of nodes") struct CertificateTests {
    private let folder: CertificateFolder

    init() throws { folder = try CertificateFolder() }

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
        defer { folder.remove() }
        let (there, here) = (Heard(), Heard())
        let reports = Mutex<[String]>([])
        var events = here.events
        events.link = { _, _, report in
            if case .failed(let reason) = report { reports.withLock { $0.append(reason) } }
        }
        let trust = PeerTrust.test(wantsNames: one.wantsNames)
        let server = try PeerServer(trust: trust, tls: try folder.tls(one.listening), events: there.events)
        let peers = try Connecting(
            to: server.port, trust: trust, tls: try folder.tls(one.connecting), events: events,
            sending: [[1, 2, 3]])
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
        try peers.run { $0.close() }
        server.close()
    }
}
