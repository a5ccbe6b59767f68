import Foundation
import Logging
import NIOCore
import NIOPosix
import Synchronization
import TLS

/// Keeps the listeners' certificates as new as their files, and says what became of each.
final class CertificateKeeper: Sendable {
    /// A change is taken when the files have stood still from one look to the next.
    private static let pause = TimeAmount.seconds(2)

    let tls: ServerTLS
    let taken = Atomic<Int>(0)
    let refused = Atomic<Int>(0)
    private let log: Logger
    private let looking = Mutex<RepeatedTask?>(nil)

    /// `nil` where nothing listens with TLS. The keys of session tickets come from the secret, which all
    /// gateways of a cluster have.
    init?(_ configuration: NodeConfiguration, secret: [UInt8], _ log: Logger) throws {
        guard !configuration.listenTLS.isEmpty else { return nil }
        tls = try ServerTLS(configuration.certificates, tickets: TicketKeyring(secret: secret))
        self.log = log
    }

    var files: [CertificateFiles] { tls.certificates.map(\.files) }

    func notAfter(_ files: CertificateFiles) -> Double {
        tls.certificates.first { $0.files == files }.map { Double($0.certificate.notAfter) } ?? 0
    }

    /// Looks at the files from now on, beside the loops.
    func begin(on loop: any EventLoop) {
        let task = loop.scheduleRepeatedAsyncTask(initialDelay: Self.pause, delay: Self.pause) { _ in
            NIOThreadPool.singleton.runIfActive(eventLoop: loop) { self.look() }
        }
        looking.withLock { $0 = task }
    }

    /// No more looks: the loop may end.
    func end() { looking.withLock { $0 }?.cancel() }

    /// Keys of session tickets come from another secret: those of the former one are not taken any more.
    func change(secret: [UInt8]) { tls.change(secret: secret) }

    func look(isAsked: Bool = false) {
        for news in tls.look(isAsked: isAsked) {
            var about: Logger.Metadata = ["cert": "\(news.files.chain)", "key": "\(news.files.key)"]
            switch news.outcome {
            case .taken:
                taken.add(1, ordering: .relaxed)
                let end = Date(timeIntervalSince1970: notAfter(news.files))
                about["ends"] = "\(end.formatted(.iso8601))"
                log.info("a new certificate is in use", metadata: about)
            case .unchanged:
                log.info("the certificate is the same as before", metadata: about)
            case .refused(let reason):
                refused.add(1, ordering: .relaxed)
                about["reason"] = "\(reason)"
                log.error("a new certificate cannot be used; the one before goes on", metadata: about)
            }
        }
    }
}
