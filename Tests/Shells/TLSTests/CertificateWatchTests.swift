import Testing

@testable import TLS

@Suite("When a certificate's files are read again") struct CertificateWatchTests {
    private let old = [FileStamp(inode: 1), FileStamp(inode: 2)]
    private let half = [FileStamp(inode: 3), FileStamp(inode: 2)]
    private let new = [FileStamp(inode: 3), FileStamp(inode: 4)]

    private func look(_ watch: inout CertificateWatch, _ stamps: [FileStamp?]) -> Bool { watch.look(stamps) }

    @Test("not while they are as they were")
    func notWhileTheyAreAsTheyWere() {
        var watch = CertificateWatch(read: old)
        for _ in 0..<3 { #expect(look(&watch, old) == false) }
    }

    @Test("once they are others and stand still")
    func standStill() {
        var watch = CertificateWatch(read: old)
        #expect(look(&watch, half) == false, "the key may be about to follow")
        #expect(look(&watch, new) == false)
        #expect(look(&watch, new) == true)
        #expect(look(&watch, new) == false)
    }

    @Test("not before they change where they could not be used")
    func unusable() {
        var watch = CertificateWatch(read: old)
        #expect(look(&watch, half) == false)
        #expect(look(&watch, half) == true)
        #expect(look(&watch, half) == false)
        #expect(look(&watch, new) == false)
        #expect(look(&watch, new) == true)
    }

    @Test("when they are gone, and when they come back")
    func goneAndBack() {
        var watch = CertificateWatch(read: old)
        let gone: [FileStamp?] = [nil, FileStamp(inode: 2)]
        #expect(look(&watch, gone) == false)
        #expect(look(&watch, gone) == true)
        #expect(look(&watch, old) == false)
        #expect(look(&watch, old) == true)
    }

    @Test("not twice where an operator has asked for it")
    func askedFor() {
        var watch = CertificateWatch(read: old)
        #expect(look(&watch, new) == false)
        watch.noteRead(new)
        #expect(look(&watch, new) == false)
        #expect(look(&watch, new) == false)
    }
}
