"""Keys, and the line that they make."""

from pi_actors.cli.keys import Line


def test_what_is_typed_can_be_corrected_and_is_sent_with_enter() -> None:
    line = Line()
    assert line.press(b"hellp\x7fo") == []
    assert line.text == "hello"
    assert line.press(b" \r") == [("send", "hello")]
    assert line.text == ""
    line.press(b"rubbish\x15ok")
    assert line.text == "ok"
    assert line.press(b"\x08\x08\x08\r") == [("send", "")]


def test_letters_may_arrive_in_pieces() -> None:
    line = Line()
    for byte in "größe 🎉".encode():
        assert line.press(bytes([byte])) == []
    assert line.text == "größe 🎉"


def test_escape_alone_stops_and_the_keys_that_begin_with_it_do_nothing() -> None:
    line = Line()
    assert line.press(b"\x1b") == [("stop", "")]
    for key in (b"\x1b[A", b"\x1b[3~", b"\x1bOP"):
        assert line.press(key) == []
    assert line.text == ""


def test_ctrl_c_and_ctrl_d_leave() -> None:
    assert Line().press(b"\x03") == Line().press(b"\x04") == [("leave", "")]
    assert Line().press(b"ab\rc\x04") == [("send", "ab"), ("leave", "")]
