import Model
import NodeCore

extension SwarmDraw {
    /// Draws the bounds of what may wait for a loop and for another process. There must be room for the
    /// frames of a few devices' streams that come back: otherwise a loop or a link would drop the same frames
    /// again and again.
    mutating func drawBacklogs() {
        let plain = Options(seed: 0)
        let (inbox, peer) = (plain.inbox, plain.peerBacklog)
        func bound(_ plain: Int, _ from: UInt64, to: UInt64) -> UInt64 {
            roll(3) == 0 ? magnitude(from, to) : UInt64(plain)
        }
        add("inbox-entries", \.inbox.entries, value: bound(inbox.entries, 500, to: 10_000))
        add("inbox-bytes", \.inbox.bytes, value: bound(inbox.bytes, 500_000, to: 5_000_000))
        add("peer-frames", \.peerBacklog.entries, value: bound(peer.entries, 500, to: 5000))
        add("peer-bytes", \.peerBacklog.bytes, value: bound(peer.bytes, 500_000, to: 5_000_000))
    }

    /// Draws links that take less than what waits for the streams behind them, and how streams share them.
    mutating func drawReading() {
        add("narrow-peer-bytes", 0, value: roll(6) == 0 ? magnitude(100_000, 500_000) : 0) {
            if $1 > 0 { $0.peerBacklog.bytes = Int($1) }
        }
        draw("read-bytes", \.loop.readBytesAtOnce, from: 200, to: 20_000)
        draw("stream-bytes", \.partition.streamBytesAtOnce, from: 1, to: 20_000)
        draw("read-pause-ms", \.loop.readPause, from: 1)
    }
}
