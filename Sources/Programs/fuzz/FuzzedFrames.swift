import Bytes
import NIOCore

@testable import PeerLink

/// Reads arbitrary bytes as those of a connection between nodes, for a fuzzer.
enum FuzzedFrames {
    /// The first byte chooses the dialect, and whether `run` corrects the checksums of the frames, so that
    /// the fuzzer reaches the code behind the checksum. A frame that can be read must be the same after it is
    /// written and read again.
    static func run(_ input: [UInt8]) {
        guard let choice = input.first else { return }
        let dialect = Dialect(version: choice % 2 + 1)
        var bytes = Array(input.dropFirst())
        if choice >= 128 { mend(&bytes, dialect) }
        var buffer = ByteBuffer(bytes: bytes)
        while let frame = try? Frame.read(from: &buffer, in: dialect, payloadMax: 1 << 20) {
            var again = ByteBuffer()
            Frame.write(frame.kind, frame.payload, in: dialect, to: &again)
            let second = try? Frame.read(from: &again, in: dialect)
            precondition(second?.kind == frame.kind && second?.payload == frame.payload)
            if let peer = PeerIdentity(decoding: frame.payload) {
                precondition(PeerIdentity(decoding: peer.encoded) == peer)
                _ = Dialect.common(peer, PeerIdentity(cluster: [1], processID: 1, name: "a"))
            }
        }
    }

    /// Gives each frame the dialect's version and the right checksum.
    private static func mend(_ bytes: inout [UInt8], _ dialect: Dialect) {
        var start = 0
        while start + Frame.headerBytes <= bytes.count {
            let length = (0..<4).reduce(0) { $0 | Int(bytes[start + $1]) << (8 * $1) }
            let end = start + 4 + length
            guard length >= Frame.headerBytes - 4, end <= bytes.count else { return }
            bytes[start + 4] = dialect.version
            var whole = ByteBuffer(bytes: bytes[start..<end])
            let stored = whole.getBytes(at: Frame.headerBytes, length: end - start - Frame.headerBytes) ?? []
            let sum = Checksum.of(stored, seed: Frame.seed(whole, start: 0))
            whole.setInteger(sum, at: 8, endianness: .little)
            bytes.replaceSubrange(start..<end, with: whole.readableBytesView)
            start = end
        }
    }
}
