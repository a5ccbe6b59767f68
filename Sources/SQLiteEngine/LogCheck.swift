import Glibc

/// Notices a write-ahead log that was damaged in its middle.
///
/// SQLite reads the log up to the first page whose checksum is wrong and takes the rest for what a crash left
/// of an unfinished commit. A bit that flipped would so silently undo every commit behind it. But each commit
/// is synced before the next begins, so a crash leaves at most one of them unfinished: where *two* commits of
/// this same log stand behind the last page that was believed, the log did not end there.
///
/// What it reads is the file format of SQLite's write-ahead log (sqlite.org/fileformat2.html#walformat): a
/// header of 32 bytes with two salts, then frames of 24 bytes and a page, where a frame repeats the salts,
/// and one that ends a commit names the database's size. Left over from before the log was last begun anew
/// are frames with other salts.
struct LogCheck {
    private static let headerBytes = 32
    private static let frameHeaderBytes = 24

    /// For each frame, in order, whether it ends a commit, as far as frames carry the salts of the first one.
    private var commits: [Bool] = []
    /// Whether the first frame carries at least one of the header's salts; a log begun anew carries neither.
    private var isOfThisHeader = false

    /// Looks at the file before SQLite opens it.
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
            // One salt may be the bit that flipped; both differ in what is left over from before.
            guard frame[2] == known.0 || frame[3] == known.1 else { break }
            commits.append(frame[1] != 0)
            offset += LogCheck.frameHeaderBytes + pageBytes
        }
    }

    /// Big-endian words, or `nil` where the file ends before them.
    private static func words(_ file: Int32, at offset: Int, count: Int) -> [UInt32]? {
        var words = [UInt32](repeating: 0, count: count)
        let got = words.withUnsafeMutableBytes { pread(file, $0.baseAddress, $0.count, off_t(offset)) }
        return got == count * 4 ? words.map(UInt32.init(bigEndian:)) : nil
    }

    /// A sentence, where commits were lost that a crash cannot have lost.
    func damage(pagesBelieved: Int) -> String? {
        guard isOfThisHeader, pagesBelieved < commits.count else { return nil }
        let lost = commits[max(0, pagesBelieved)...].count { $0 }
        guard lost >= 2 else { return nil }
        return "the write-ahead log is damaged behind page \(pagesBelieved): \(lost) commits are lost"
    }
}
