import NIOCore
import NIOPosix
import Synchronization

@testable import PeerLink

/// A peer whose frames the test sends itself. It greets, and proves that it has the cluster's key.
final class RawPeer: Sendable {
    /// Answers the server's greeting with the proof, and keeps what comes.
    private final class Reader: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        private let words: [UInt8]
        private let proved: EventLoopPromise<Void>
        private let received = Mutex((hello: [UInt8]?.none, frames: [Frame.Kind](), rest: ByteBuffer()))
        var hello: [UInt8]? { received.withLock { $0.hello } }
        var frames: [Frame.Kind] { received.withLock { $0.frames } }

        init(_ words: [UInt8], _ proved: EventLoopPromise<Void>) {
            (self.words, self.proved) = (words, proved)
        }

        func channelActive(context: ChannelHandlerContext) {
            context.writeAndFlush(NIOAny(RawPeer.frame(.hello, words)), promise: nil)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var arrived = unwrapInboundIn(data)
            let greeting: [UInt8]? = received.withLock { received in
                received.rest.writeBuffer(&arrived)
                let isFirst = received.hello == nil
                while let frame = try? Frame.read(from: &received.rest, in: .greeting) {
                    received.frames.append(frame.kind)
                    if received.hello == nil { received.hello = frame.payload }
                }
                return isFirst ? received.hello : nil
            }
            guard let greeting else { return }
            let proof = PeerTrust.test().key.proof(
                of: .connecting, connecting: words, listening: greeting, channel: [])
            context.writeAndFlush(NIOAny(RawPeer.frame(.proof, proof)), promise: proved)
        }

        func channelInactive(context: ChannelHandlerContext) {
            proved.fail(ChannelError.eof)
            context.fireChannelInactive()
        }
    }

    let channel: any Channel
    private let reader: Reader
    /// The server's greeting, and the kinds of all frames that it sent.
    var hello: [UInt8]? { reader.hello }
    var frames: [Frame.Kind] { reader.frames }

    /// Returns when the proof has been sent. `words` are the payload of the peer's greeting.
    init(_ words: [UInt8], to port: Int) throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let proved = loop.makePromise(of: Void.self)
        let reader = Reader(words, proved)
        self.reader = reader
        channel = try ClientBootstrap(group: loop)
            .channelOption(.socketOption(.so_rcvbuf), value: 4096)
            .channelInitializer { $0.pipeline.addHandler(reader) }
            .connect(host: "127.0.0.1", port: port).wait()
        try proved.futureResult.wait()
    }

    static func frame(_ kind: Frame.Kind, _ payload: [UInt8]) -> ByteBuffer {
        var bytes = ByteBuffer()
        Frame.write(kind, payload, in: .greeting, to: &bytes)
        return bytes
    }

    func say(_ kind: Frame.Kind, _ payload: [UInt8]) throws {
        try channel.writeAndFlush(RawPeer.frame(kind, payload)).wait()
    }
}
