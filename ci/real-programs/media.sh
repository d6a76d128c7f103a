# Makes a film of a test picture and a tone, with threads, and reads it again.
# Only what does not depend on the number of CPUs and on time is told.
set -eu
quiet() { ffmpeg -nostdin -hide_banner -loglevel error "$@"; }
exact="-fflags +bitexact -flags:v +bitexact -flags:a +bitexact -sws_flags +accurate_rnd+bitexact"
source="-f lavfi -i testsrc2=size=480x270:rate=25:duration=4 -f lavfi -i sine=frequency=330:duration=4"
# shellcheck disable=SC2086 # Options are words.
{
    quiet $source $exact -c:v mpeg4 -threads 4 -q:v 4 -c:a aac a.mkv
    cksum a.mkv
    if quiet -encoders | grep -q libx264; then
        quiet $source $exact -c:v libx264 -preset veryfast -x264-params threads=4:deterministic=1 -an b.mp4
        # With threads its bytes differ from run to run; the frames' number does not.
        quiet -i b.mp4 -f framemd5 - | grep -c '^0,'
    fi
    quiet -threads 4 -i a.mkv -filter_complex \
        '[0:v]split=3[a][b][c];[a]hflip[d];[b]scale=240:136,format=yuv444p,scale=480:270[e];[d][e]blend=all_mode=average[f];[f][c]hstack,format=yuv420p' \
        -f framemd5 $exact - | cksum
    quiet -i a.mkv -vn -af 'atempo=1.3,aecho=0.8:0.8:40:0.5' -f md5 $exact -
    quiet -i a.mkv -vf fps=5 $exact 'p%02d.png'
    cat p*.png | cksum
    quiet -framerate 5 -i 'p%02d.png' $exact -c:v ffv1 -threads 4 -slices 4 c.mkv
    quiet -i c.mkv -f md5 -
}
