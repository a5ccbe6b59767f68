import Bytes
import Model

/// News that this node has still to send. Pieces sent least go first, so that old ones never crowd out new
/// ones.
struct News: Sendable {
    /// Of two pieces about one subject the later replaces the earlier.
    enum Subject: Hashable, Sendable {
        case member(SessionID)
        /// One accuser's suspicion of a member. Each accuser counts, so none replaces another.
        case accusation(SessionID, by: SessionID)
        case entry(UInt32)
    }

    private struct Piece: Sendable {
        var subject: Subject
        var bytes: [UInt8]
        var told = 0
        var order: UInt64
    }

    private var pieces: [Piece] = []
    private var order: UInt64 = 0
    private var isSorted = true

    var isEmpty: Bool { pieces.isEmpty }
    var count: Int { pieces.count }

    mutating func put(_ subject: Subject, _ bytes: [UInt8]) {
        pieces.removeAll { piece in
            if case .member(let session) = subject, case .accusation(session, _) = piece.subject {
                return true
            }
            return piece.subject == subject
        }
        order += 1
        pieces.append(Piece(subject: subject, bytes: bytes, order: order))
        isSorted = false
    }

    /// Writes the pieces for which there is room, and forgets each piece that was sent `retransmitLimit`
    /// times.
    mutating func tell(into out: inout ByteWriter, bytesMax: Int, retransmitLimit: Int) {
        guard !pieces.isEmpty else { return }
        if !isSorted {
            pieces.sort { ($0.told, $1.order) < ($1.told, $0.order) }
            isSorted = true
        }
        var isUneven = false
        for index in pieces.indices {
            guard out.bytes.count + pieces[index].bytes.count <= bytesMax else {
                isUneven = true
                continue
            }
            out.raw(pieces[index].bytes)
            pieces[index].told += 1
        }
        pieces.removeAll { $0.told >= retransmitLimit }
        // If every piece was sent, the order stays.
        if isUneven { isSorted = false }
    }
}
