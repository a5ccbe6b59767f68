import Foundation
import Logging
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// Keeps the certificates of listeners and between nodes as new as their files, and logs each outcome.
final class CertificateKeeper: Sendable {
    /// Time between two looks. Changed files are read when they are the same at two looks in a row.
    private static let pause = TimeAmount.seconds(2)

    /// For the listeners, if one has TLS.
    let tls: ServerTLS?
    /// For connections between nodes.
    let peers: PeerTLS?
    let taken = Atomic<Int>(0)
    let refused = Atomic<Int>(0)
    private let mayBeLoose: Bool
    private let log: Logger
    private let looking = Mutex<RepeatedTask?>(nil)

    /// `nil` if the node has no certificate. The keys of session tickets come from `secret`, which all
    /// gateways of a cluster have.
    init?(_ configuration: NodeConfiguration, peers: PeerTLS?, secret: [UInt8], _ log: Logger) throws {
        let listens = !configuration.listenTLS.isEmpty
        guard listens || peers != nil else { return nil }
        tls =
            listens
            ? try ServerTLS(configuration.certificates, tickets: TicketKeyring(secret: secret)) : nil
        self.peers = peers
        mayBeLoose = configuration.mayHaveLooseModes
        self.log = log
    }

    var files: [CertificateFiles] {
        (tls?.certificates.map(\.files) ?? []) + (peers.map { [$0.files.certificate] } ?? [])
    }

    func notAfter(_ files: CertificateFiles) -> Double {
        if let own = tls?.certificates.first(where: { $0.files == files }) {
            return Double(own.certificate.notAfter)
        }
        return peers.map { Double($0.notAfter) } ?? 0
    }

    /// Looks at the files from now on, on a thread beside the loops.
    func start(on loop: any EventLoop) {
        let task = loop.scheduleRepeatedAsyncTask(initialDelay: Self.pause, delay: Self.pause) { _ in
            NIOThreadPool.singleton.runIfActive(eventLoop: loop) { self.look() }
        }
        looking.withLock { $0 = task }
    }

    /// Ends the looks, so that the loop may end.
    func end() { looking.withLock { $0 }?.cancel() }

    /// Derives the keys of session tickets from another secret. Tickets under the old secret are refused.
    func change(secret: [UInt8]) { tls?.change(secret: secret) }

    func look(isAsked: Bool = false) {
        let mistake = { (file: String) in self.mayBeLoose ? nil : FileModes.mistake(file, .file) }
        let peerNews = peers?.look(isAsked: isAsked, mistake: mistake).map { [$0] } ?? []
        for news in (tls?.look(isAsked: isAsked, mistake: mistake) ?? []) + peerNews {
            var about: Logger.Metadata = ["cert": "\(news.files.chain)", "key": "\(news.files.key)"]
            switch news.outcome {
            case .taken:
                taken.add(1, ordering: .relaxed)
                let end = Date(timeIntervalSince1970: notAfter(news.files))
                about["ends"] = "\(end.formatted(.iso8601))"
                log.info("a new certificate is in use", metadata: about)
            case .unchanged:
                log.info("the certificate has not changed", metadata: about)
            case .refused(let reason):
                refused.add(1, ordering: .relaxed)
                about["reason"] = "\(reason)"
                log.error(
                    "a new certificate cannot be used: the former certificate stays in use", metadata: about)
            }
        }
    }
}
