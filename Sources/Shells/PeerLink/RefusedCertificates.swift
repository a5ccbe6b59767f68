import Model
import NIOCore
import Synchronization

/// The certificates of nodes that this process refuses, and its connections, which it closes when their
/// certificate becomes refused (rule: refused-certificates-hold). Any thread may call it.
public final class RefusedCertificates: Sendable {
    private struct Connection {
        var certificates: [CertificateFingerprint]
        var channel: any Channel
    }
    private struct State {
        var refused: Set<CertificateFingerprint>
        /// Connections with a certificate whose greeting is over.
        var standing: [ObjectIdentifier: Connection] = [:]
    }
    private let state: Mutex<State>
    /// Greetings that were refused for their certificate, and connections that were closed for it.
    private let count = Atomic<Int>(0)
    public var refusedCount: Int { count.load(ordering: .relaxed) }

    public init(_ refused: Set<CertificateFingerprint>) { state = Mutex(State(refused: refused)) }

    /// The event by which a connection learns that its certificate is refused now.
    struct Cut: Sendable {
        var certificate: CertificateFingerprint
    }

    /// Refuses these certificates from now on, and no others.
    public func update(_ refused: Set<CertificateFingerprint>) {
        let cut = state.withLock { state in
            state.refused = refused
            return state.standing.values.compactMap { connection in
                connection.certificates.first(where: refused.contains).map { (connection.channel, $0) }
            }
        }
        for (channel, certificate) in cut {
            channel.pipeline.fireUserInboundEventTriggered(Cut(certificate: certificate))
        }
    }

    /// The first of the forms of a certificate that is refused; `nil` if none is.
    func find(_ forms: [CertificateFingerprint]) -> CertificateFingerprint? {
        state.withLock { state in forms.first(where: state.refused.contains) }
    }

    /// Notes a connection whose greeting is over, or returns the certificate that became refused meanwhile.
    func stand(_ channel: any Channel, _ forms: [CertificateFingerprint]) -> CertificateFingerprint? {
        guard !forms.isEmpty else { return nil }
        return state.withLock { state in
            if let found = forms.first(where: state.refused.contains) { return found }
            state.standing[ObjectIdentifier(channel)] = Connection(certificates: forms, channel: channel)
            return nil
        }
    }

    func end(_ channel: any Channel) {
        state.withLock { state in _ = state.standing.removeValue(forKey: ObjectIdentifier(channel)) }
    }

    func noteRefused() { count.add(1, ordering: .relaxed) }

    /// Why a connection ends, for the logs of both sides.
    static func sentence(_ node: String, _ certificate: CertificateFingerprint) -> String {
        "node \(node) shows a certificate that the cluster refuses (\(certificate.text)): give the node"
            + " another one, or `tidecast cluster accept` it"
    }
}
