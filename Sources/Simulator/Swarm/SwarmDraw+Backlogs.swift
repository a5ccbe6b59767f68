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
        add("inbox-entries", UInt64(inbox.entries), value: bound(inbox.entries, 500, to: 10_000)) {
            $0.inbox.entries = Int($1)
        }
        add("inbox-bytes", UInt64(inbox.bytes), value: bound(inbox.bytes, 500_000, to: 5_000_000)) {
            $0.inbox.bytes = Int($1)
        }
        add("peer-frames", UInt64(peer.entries), value: bound(peer.entries, 500, to: 5000)) {
            $0.peerBacklog.entries = Int($1)
        }
        add("peer-bytes", UInt64(peer.bytes), value: bound(peer.bytes, 500_000, to: 5_000_000)) {
            $0.peerBacklog.bytes = Int($1)
        }
    }
}
