import Glibc

/// Notices a write-ahead log that was damaged in its middle.
///
/// SQLite reads the log up to the first page with a wrong checksum, and takes the rest for the remains of an
/// unfinished commit. So a flipped bit would silently undo every commit behind it. But each commit is synced
/// before the next begins, so a crash leaves at most one unfinished. If *two* commits of the same log are
/// behind the last page that SQLite believed, the log did not end there.
///
/// The format is that of SQLite's write-ahead log (sqlite.org/fileformat2.html#walformat): a header of 32
/// bytes with two salts, then frames of 24 bytes and a page. A frame repeats the salts, and a frame that ends
/// a commit names the database's size. Frames with other salts are left from before SQLite last restarted the
/// log.
struct LogCheck {
    private static let headerBytes = 32
    private static let frameHeaderBytes = 24

    /// For each frame, in order, whether it ends a commit; stops at the first frame with other salts.
    private var commits: [Bool] = []
    /// Whether the first frame carries at least one of the header's salts; in a restarted log it carries
    /// neither.
    private var isOfThisHeader = false

    /// Reads the file before SQLite opens it.
    init(path: String) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        guard let header = LogCheck.words(file, at: 0, count: 8) else { return }
        let pageBytes = Int(header[2])
        guard (512...65_536).contains(pageBytes) else { return }
        var offset = LogCheck.headerBytes
        var salts: (UInt32, UInt32)?
        while let frame = LogCheck.words(file, at: offset, count: 6) {
            let known = salts ?? (frame[2], frame[3])
            if salts == nil { isOfThisHeader = frame[2] == header[4] || frame[3] == header[5] }
            salts = known
            // One salt may hold the flipped bit; in frames that are left from before, both differ.
            guard frame[2] == known.0 || frame[3] == known.1 else { break }
            commits.append(frame[1] != 0)
            offset += LogCheck.frameHeaderBytes + pageBytes
        }
    }

    /// Big-endian words, or `nil` if the file ends before them.
    private static func words(_ file: Int32, at offset: Int, count: Int) -> [UInt32]? {
        var words = [UInt32](repeating: 0, count: count)
        let got = words.withUnsafeMutableBytes { pread(file, $0.baseAddress, $0.count, off_t(offset)) }
        return got == count * 4 ? words.map(UInt32.init(bigEndian:)) : nil
    }

    /// A sentence, if commits are lost that no crash can have lost.
    func damage(pagesBelieved: Int) -> String? {
        guard isOfThisHeader, pagesBelieved < commits.count else { return nil }
        let lost = commits[max(0, pagesBelieved)...].count { $0 }
        guard lost >= 2 else { return nil }
        return "the write-ahead log is damaged behind page \(pagesBelieved): \(lost) commits are lost"
    }
}
