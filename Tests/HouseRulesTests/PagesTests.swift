import Testing

@Suite("House rules: the reader of pages") struct PagesTests {
    @Test("a name is declared where the whole name stands behind a word that declares")
    func declares() {
        let source = "func acceptSend() {}\nfunc sendToDevice() {}\ncase full\ninit(_ a: Int) {}\n"
        let there = ["acceptSend", "Partition.acceptSend", "full", "Partition.init"]
        #expect(Page.undeclared(there, in: source).isEmpty)
        let missing = ["send", "accept", "ful", "Device", "Init"]
        #expect(Page.undeclared(missing, in: source) == missing)
        #expect(Page.names(in: "`send`, `admit` of type `Poll`, 16") == ["send", "admit", "Poll"])
    }
}
