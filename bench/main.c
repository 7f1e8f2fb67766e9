/* main.c - the program's entry point */
int main(void)
{
    return 2;
}
